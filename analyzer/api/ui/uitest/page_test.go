package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// visitor is a tab in a test: what does not come true ends the test.
type visitor struct {
	*tab

	t *testing.T
}

// newBrowser starts a Chromium for a test, or skips it.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	b, err := openBrowser(context.Background())
	if errors.Is(err, errNoBrowser) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.stop)
	return b
}

// visit opens a tab. When the test ends, no code of the page may have failed.
func visit(t *testing.T, b *browser, url string, v view) *visitor {
	t.Helper()
	at, err := b.open(url, v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the tab may still send: its browser ends later
		for {
			select {
			case text := <-at.errors:
				t.Errorf("the page: %s", text)
			default:
				return
			}
		}
	})
	return &visitor{at, t}
}

func (v *visitor) check(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

// sees waits until an expression is true.
func (v *visitor) sees(expression string) {
	v.t.Helper()
	v.check(v.until(expression))
}

// reads waits until the text of the first element of a selector contains something.
func (v *visitor) reads(selector, text string) {
	v.t.Helper()
	v.check(v.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))`, selector, text)))
}

func (v *visitor) clicks(selector string) {
	v.t.Helper()
	v.check(v.click(selector))
}

func (v *visitor) writes(selector, text string) {
	v.t.Helper()
	v.check(v.write(selector, text))
}

func (v *visitor) presses(keys string) {
	v.t.Helper()
	v.check(v.press(keys))
}

// is fails the test unless an expression is true now.
func (v *visitor) is(expression, what string) {
	v.t.Helper()
	ok, err := value[bool](v.tab, "Boolean("+expression+")")
	v.check(err)
	if !ok {
		v.t.Errorf("got %s false, want %s", expression, what)
	}
}

// goes leads the page to another route of its own.
func (v *visitor) goes(route string) {
	v.t.Helper()
	_, err := value[string](v.tab, fmt.Sprintf(`location.hash = %q`, route))
	v.check(err)
}

// live waits until the page has all that is in force.
func (v *visitor) live() {
	v.t.Helper()
	v.sees(`document.querySelector("#connection").dataset.state === "live"`)
}

// acts fills in the dialog that is open and confirms it. consequence is part of what it must say before.
func (v *visitor) acts(consequence string, fields map[string]string) {
	v.t.Helper()
	v.sees(`document.querySelector("dialog[open]")`)
	for name, text := range fields {
		v.writes("#act-"+name, text)
	}
	v.reads("#consequence", consequence)
	v.clicks("dialog[open] button.primary")
	v.sees(`!document.querySelector("dialog")`)
}

// announced is true if nothing that a screen reader announces by itself has a number in it: it would speak each second.
const announced = `![...document.querySelectorAll("main :is([role=status], [aria-live]), #connection [role=status]")].some((e) => /\d/.test(e.textContent))`

// row is the selector of a line of the closed callers, by a part of its text.
func row(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("[data-panel=closed] .sizer .row")].find((r) => !r.hidden && r.textContent.includes(%q))`, text)
}
