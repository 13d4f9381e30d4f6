// The provider of the npm package oidc-provider, with a sign-in page that asks nobody else: node real_provider.mjs PACKAGE
// It prints its issuer, reads the client's address from standard input, and prints "ready". Whoever signs in is the person
// of that name; a name like "ada+judges+staff" is in these groups.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { default: Provider } = await import(pathToFileURL(process.argv[2]));
const server = createServer();

function serve(issuer, redirect) {
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "tiltyard",
        client_secret: "a secret of the client, long enough",
        redirect_uris: [redirect],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    cookies: { keys: ["only for tests"] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, interaction) => `/people/${interaction.uid}` },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: `${id.split("+")[0]} of the test`, groups: id.split("+").slice(1) }),
    }),
    // People are not asked whether the client may know them.
    async loadExistingGrant(context) {
      const { client, session, result } = context.oidc;
      const known = result?.consent?.grantId || session.grantIdFor(client.clientId);
      if (known) return provider.Grant.find(known);
      const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
      grant.addOIDCScope("openid profile");
      await grant.save();
      return grant;
    },
  });
  const others = provider.callback();
  server.on("request", async (request, response) => {
    const url = new URL(request.url, issuer);
    if (!url.pathname.startsWith("/people/")) return others(request, response);
    if (request.method === "GET") {
      response.setHeader("content-type", "text/html; charset=utf-8");
      return response.end(
        `<!doctype html><title>Who are you?</title><form method="post"><label>Account <input name="login"></label>
         <button>Enter</button><button name="leave" value="yes">Leave</button></form>`,
      );
    }
    let body = "";
    for await (const part of request) body += part;
    const form = new URLSearchParams(body);
    const result = form.get("leave")
      ? { error: "access_denied", error_description: "The person left." }
      : { login: { accountId: form.get("login") } };
    return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  });
  console.log("ready");
}

server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  console.log(issuer);
  createInterface({ input: process.stdin }).once("line", (redirect) => serve(issuer, redirect));
});
