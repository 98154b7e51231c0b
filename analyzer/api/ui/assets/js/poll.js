// Repeated questions.

// poll calls ask at once, and again so many milliseconds after each call has ended, until signal ends. It rests while nobody sees
// the page. ask must not fail: it shows its own errors.
export async function poll(ask, every, signal) {
  while (!signal.aborted) {
    if (document.visibilityState === "visible") await ask();
    await pause(every, signal);
  }
}

// pause resolves after so many milliseconds, or when signal ends, or when the page is seen again.
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function seen() {
      if (document.visibilityState === "visible") done();
    }
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      document.removeEventListener("visibilitychange", seen);
      resolve();
    }
    signal?.addEventListener("abort", done);
    document.addEventListener("visibilitychange", seen);
    if (signal?.aborted) done();
  });
}

// throttle returns a function that calls render soon, and at most once in so many milliseconds: the first call after a quiet time
// renders with the next frame.
export function throttle(render, every) {
  let timer = 0;
  let last = -Infinity;
  return () => {
    if (timer) return;
    const wait = Math.max(0, last + (typeof every === "function" ? every() : every) - performance.now());
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      render();
    }, wait);
  };
}
