package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// errNoBrowser says that there is no Chromium on this machine.
var errNoBrowser = errors.New("no Chromium: install Debian's package chromium")

// patience is how long a page may take for anything: a slow machine under load needs some of it.
const patience = 60 * time.Second

// browser is a Chromium without a window. Its tabs share what tabs of one person share: connections and locks.
type browser struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps the browser in it
	stop func()
}

// openBrowser starts a Chromium. It ends with ctx, or with stop.
func openBrowser(ctx context.Context) (*browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, errNoBrowser
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(patience))
	alloc, stopAlloc := chromedp.NewExecAllocator(ctx, options...)
	bctx, stopBrowser := chromedp.NewContext(alloc)
	stop := func() { stopBrowser(); stopAlloc() }
	if err := chromedp.Do(bctx); err != nil {
		stop()
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	return &browser{bctx, stop}, nil
}

// view is how a tab is seen. The zero value is a large light window.
type view struct {
	width, height int // in CSS pixels; 0 is 1280 × 900
	dark, still   bool
	scale         float64 // pixels of a CSS pixel; 0 is 1
}

// tab is one page. Its methods wait for what they want, patience at most.
type tab struct {
	ctx    context.Context //nolint:containedctx // chromedp keeps the tab in it
	close  func()
	errors chan string // exceptions of the page's code, and what it or the browser complains of in the console
}

// open makes a tab and leads it to an address.
func (b *browser) open(url string, v view) (*tab, error) {
	ctx, cancel := chromedp.NewContext(b.ctx)
	t := &tab{ctx, cancel, make(chan string, 100)}
	err := chromedp.Do(ctx)
	if err == nil {
		err = chromedp.Listen(ctx, t.listen)
	}
	if err == nil {
		err = t.run(look(v), chromedp.Navigate(url))
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open %s: %w", strings.SplitN(url, "#", 2)[0], err)
	}
	return t, nil
}

// look sets what the page learns of the window and of the person.
func look(v view) chromedp.Action[chromedp.Void] {
	media := func(name, usual, other string, is bool) *emulation.MediaFeature {
		if is {
			usual = other
		}
		return &emulation.MediaFeature{Name: name, Value: usual}
	}
	features := []*emulation.MediaFeature{
		media("prefers-color-scheme", "light", "dark", v.dark), media("prefers-reduced-motion", "no-preference", "reduce", v.still),
	}
	size := emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 900, DeviceScaleFactor: 1}
	if v.width > 0 {
		size.Width, size.Height, size.Mobile = int64(v.width), int64(v.height), v.width < 600
	}
	if v.scale > 0 {
		size.DeviceScaleFactor = v.scale
	}
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, size); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// listen keeps what goes wrong in the page. A request that fails is no mistake of the page.
func (t *tab) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.URL, ":", e.ExceptionDetails.LineNumber)
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			text = e.Entry.Text
		}
	}
	if text != "" {
		select {
		case t.errors <- text:
		default:
		}
	}
}

// run does actions.
func (t *tab) run(actions ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Do(ctx, actions...)
}

// until waits until an expression of JavaScript is true.
func (t *tab) until(expression string) error {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if ok {
			return nil
		}
		select {
		case <-time.After(30 * time.Millisecond):
			continue
		case <-ctx.Done():
		}
		text, _ := value[string](t, `document.body.innerText.slice(0, 3000)`)
		return fmt.Errorf("wait for %s: %w; the page says:\n%s", expression, errors.Join(err, ctx.Err()), text)
	}
}

// rest waits until nothing on the page moves: colours on their way are not those that people read.
func (t *tab) rest() error {
	return t.until(`document.getAnimations().every((a) => a.playState !== "running")`)
}

// value returns what an expression of JavaScript is. A promise is waited for.
func value[T any](t *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		return v, fmt.Errorf("evaluate %.80s: %w", expression, err)
	}
	return v, nil
}

// click clicks the first element of a CSS selector when it can be seen. If the page draws it anew before the click, click looks for it again.
func (t *tab) click(selector string) error {
	const noSuchNode = -32000 // the protocol's error of the server, also for a node that is gone
	var err error
	for range 10 {
		err = t.run(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		if e, ok := errors.AsType[*cdproto.Error](err); !ok || e.Code != noSuchNode {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("click %s: %w", selector, err)
	}
	return nil
}

// write types text into the field of a CSS selector, in place of what is there.
func (t *tab) write(selector, text string) error {
	field := fmt.Sprintf("document.querySelector(%q)", selector)
	if err := t.until(field + "?.offsetParent"); err != nil {
		return err
	}
	if _, err := value[bool](t, "("+field+".focus(), "+field+".select(), true)"); err != nil {
		return err
	}
	return t.press(text)
}

// press presses keys as a person does who has not clicked anywhere.
func (t *tab) press(keys string) error { return t.run(chromedp.KeyEvent(keys)) }

// picture returns a PNG of what can be seen.
func (t *tab) picture() ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.CaptureScreenshot())
}
