from collections import Counter
from test_openapi import found, fuzzed, Fuzzing
def test_sub(found):
    real=Fuzzing.send; seen=Counter()
    import requests
    orig=requests.Session.send
    def send(self, request, **k):
        r=orig(self, request, **k)
        if "/responses" in request.url and request.method=="POST" and r.status_code not in (401,403):
            seen[(r.status_code, r.text[:200])]+=1
        return r
    requests.Session.send=send
    f=fuzzed(found, 400, "/responses")
    for k,v in seen.most_common(25): print(v,k)
    print(sorted(f.seen.items())); print("\n\n".join(f.failures[:6]))
