"""The Kubernetes example: manifests that agree with each other and with the image."""

from urllib.parse import urlsplit

import pytest

from support.deployed import ACCOUNT, HOME, MANIFESTS, PODS, PORT, of_kind, page
from tiltyard import __version__
from tiltyard.web.edge.middleware import MAX_IMPORT_BYTES

METRICS = {"name": "metrics", "containerPort": 9420}

#: apiVersion of every kind that is used here, and fields that its spec must have.
EXPECTED = {
    "Namespace": ("v1", set()),
    "ConfigMap": ("v1", set()),
    "Secret": ("v1", set()),
    "Service": ("v1", {"selector", "ports"}),
    "Deployment": ("apps/v1", {"replicas", "selector", "template"}),
    "Job": ("batch/v1", {"template", "backoffLimit"}),
    "Ingress": ("networking.k8s.io/v1", {"ingressClassName", "rules", "tls"}),
    "NetworkPolicy": ("networking.k8s.io/v1", {"podSelector", "policyTypes"}),
    "PodDisruptionBudget": ("policy/v1", {"minAvailable", "selector"}),
}


def test_every_kind_that_was_promised_is_there():
    assert {manifest["kind"] for _, manifest in MANIFESTS} == EXPECTED.keys()
    names = [(one["kind"], one["metadata"]["name"]) for _, one in MANIFESTS]
    assert len(names) == len(set(names))


def test_selectors_match_labels():
    for one in of_kind("Deployment").values():
        wanted = one["spec"]["selector"]["matchLabels"].items()
        assert wanted <= one["spec"]["template"]["metadata"]["labels"].items()
        (spread,) = one["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"].items() == wanted
    labels = [pod["metadata"]["labels"].items() for pod in PODS.values()]
    selectors = [one["spec"]["selector"] for one in of_kind("Service").values()]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind("PodDisruptionBudget").values()]
    selectors += [
        one["spec"]["podSelector"].get("matchLabels", {}) for one in of_kind("NetworkPolicy").values()
    ]
    for selector in selectors:
        assert any(selector.items() <= found for found in labels), selector


@pytest.mark.parametrize("name", PODS)
def test_pods_meet_the_restricted_standard(name):
    pod = PODS[name]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": ACCOUNT,
        "runAsGroup": ACCOUNT,
        "fsGroup": ACCOUNT,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert (
        of_kind("Namespace")["tiltyard"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        == "restricted"
    )


@pytest.mark.parametrize("name", PODS)
def test_containers_have_tags_bounds_and_folders_to_write_to(name):
    pod = PODS[name]["spec"]
    volumes = {one["name"] for one in pod["volumes"]}
    for container in pod["containers"]:
        assert container["image"].endswith(f"/tiltyard:{__version__}")
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts.keys() == volumes
        assert set(mounts.values()) == {HOME, "/tmp"}


@pytest.mark.parametrize("name", PODS)
def test_secrets_and_settings_that_are_referred_to_exist(name):
    for container in PODS[name]["spec"]["containers"]:
        for source in container["envFrom"]:
            if "secretRef" in source:
                assert source["secretRef"]["name"] in of_kind("Secret")
            else:
                assert source["configMapRef"]["name"] in of_kind("ConfigMap")


def test_ports_and_probes_are_those_of_the_service():
    (container,) = PODS["deployment-web"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": int(PORT)}, METRICS]
    assert container["args"][container["args"].index("--port") + 1] == PORT
    paths = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    assert {one["port"] for one in paths.values()} == {"http"}
    assert [paths[one]["path"] for one in ("startup", "liveness", "readiness")] == [
        "/healthz",
        "/healthz",
        "/readyz",
    ]
    (rater,) = PODS["deployment-rater"]["spec"]["containers"]
    probes = [rater[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")]
    assert [(one["port"], one["path"]) for one in probes] == [
        ("metrics", "/healthz"),
        ("metrics", "/healthz"),
        ("metrics", "/readyz"),
    ]
    assert rater["ports"] == [METRICS]
    (port,) = of_kind("Service")["web"]["spec"]["ports"]
    assert port["targetPort"] == "http"
    (entry,) = of_kind("NetworkPolicy")["web-from-ingress"]["spec"]["ingress"]
    assert entry["ports"] == [{"protocol": "TCP", "port": int(PORT)}]
    (entry,) = of_kind("NetworkPolicy")["metrics-from-monitoring"]["spec"]["ingress"]
    assert entry["ports"] == [{"protocol": "TCP", "port": METRICS["containerPort"]}]
    settings = of_kind("ConfigMap")["tiltyard"]["data"]
    assert settings["TILTYARD_METRICS_PORT"] == str(METRICS["containerPort"])


def test_the_ingress_leads_to_the_service_under_the_address_that_voters_use():
    ingress = of_kind("Ingress")["web"]["spec"]
    host = urlsplit(of_kind("ConfigMap")["tiltyard"]["data"]["TILTYARD_BASE_URL"]).hostname
    (rule,) = ingress["rules"]
    assert rule["host"] == host
    assert ingress["tls"][0]["hosts"] == [host]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    ports = {one["name"] for one in of_kind("Service")[backend["name"]]["spec"]["ports"]}
    assert backend["port"]["name"] in ports


def test_the_ingress_lets_in_what_the_api_takes():
    noted = of_kind("Ingress")["web"]["metadata"]["annotations"]
    assert noted["nginx.ingress.kubernetes.io/proxy-body-size"] == f"{MAX_IMPORT_BYTES >> 30}g"


def test_nothing_passes_that_no_policy_lets_through():
    policies = of_kind("NetworkPolicy")
    assert policies["nothing"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, policy in policies.items():
        for direction in policy["spec"]["policyTypes"]:
            assert name == "nothing" or policy["spec"][direction.lower()], name


def test_one_of_two_always_stays():
    for name, deployment in of_kind("Deployment").items():
        assert deployment["spec"]["replicas"] == 2
        assert of_kind("PodDisruptionBudget")[name]["spec"]["minAvailable"] == 1


def test_every_file_is_named_by_the_page():
    assert {file for file, _ in MANIFESTS if file not in page()} == set()
