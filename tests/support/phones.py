"""Small phones: how much of their screen is response, and a swipe from one response to the other."""

SMALL_PHONE = (390, 664)
#: The same phone at 200 % zoom.
ZOOMED_PHONE = (195, 332)

#: The part of the screen that the response in view takes, between the tabs and the bar.
SHARE = """() => {
  const seen = one => [...document.querySelectorAll(`.stage:not(.stage-ahead) ${one}`)]
    .find(found => found.checkVisibility()).getBoundingClientRect();
  const [response, tabs, bar] = [seen('.response'), seen('.tabs'), seen('.bar')];
  const height = Math.min(response.bottom, bar.top) - Math.max(response.top, tabs.bottom);
  return height * response.width / (innerWidth * innerHeight);
}"""
SWIPE = """(stage, across) => {
  const target = [...stage.querySelectorAll('.response')].find(one => one.checkVisibility());
  const finger = clientX => new Touch({identifier: 1, target, clientX, clientY: 300});
  const [from, to] = [finger(195), finger(195 + across)];
  target.dispatchEvent(new TouchEvent('touchstart', {bubbles: true, touches: [from], changedTouches: [from]}));
  target.dispatchEvent(new TouchEvent('touchend', {bubbles: true, touches: [], changedTouches: [to]}));
}"""
