// What is out of sight is not drawn anew until it comes into sight.

import { useEffect, useRef, useState } from "../vendor/htm-preact.js";

const MARGIN = "100px"; // so near counts as in sight

const same = (some, others) => some.every((value, i) => value === others[i]);

// [kept, observe] for a component that draws much.
//   kept(key, always, inSight, draw): what `draw` returns; or what it has returned before, if nothing of the list `always`
//     has changed since, nor of the list `inSight`, which is compared only while the element with this key is in sight.
//   observe(key): the `ref` of that element.
export function useSight() {
  const [, drawAgain] = useState(0);
  const state = useRef(null);
  if (!state.current) {
    const [out, keys] = [new Set(), new WeakMap()];
    const onChange = (entries) => {
      for (const { target, isIntersecting } of entries) out[isIntersecting ? "delete" : "add"](keys.get(target));
      drawAgain((times) => times + 1);
    };
    const observer = new IntersectionObserver(onChange, { rootMargin: MARGIN, scrollMargin: MARGIN });
    state.current = { out, keys, observer, drawings: new Map() };
  }
  const { out, keys, observer, drawings } = state.current;
  useEffect(() => () => observer.disconnect(), []);
  const kept = (key, always, inSight, draw) => {
    const before = drawings.get(key);
    if (before && same(before.always, always) && (out.has(key) || same(before.inSight, inSight))) return before.drawn;
    const drawn = draw();
    drawings.set(key, { always, inSight, drawn });
    return drawn;
  };
  const observe = (key) => (element) => {
    if (!element) return;
    keys.set(element, key);
    observer.observe(element);
  };
  return [kept, observe];
}
