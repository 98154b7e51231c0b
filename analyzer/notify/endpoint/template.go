package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// maxBody is the longest message, in bytes.
const maxBody = 256 << 10

// ErrBody says that a template makes no message of a notice. Another attempt makes none either. Test with errors.Is.
var ErrBody = errors.New("the template makes no message")

// Body returns what is sent of a notice.
func (e *Endpoint) Body(n *Notice) ([]byte, error) {
	if e.template == nil {
		return n.standard()
	}
	var b bounded
	if err := e.template.Execute(&b, n); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	return b.Bytes(), nil
}

// bounded is a buffer that takes maxBody bytes.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxBody {
		return 0, fmt.Errorf("got more than %d bytes, want fewer", maxBody)
	}
	return b.Buffer.Write(p)
}

// template reads the template, and fills it with each type of notice, so that a mistake shows now and not at the first event.
func (f endpointParser) template(e *Endpoint) {
	const want = `a template such as {"text": {{json .Text}}}`
	text, ok := f.Text("template", want)
	switch {
	case !ok:
		return
	case text == "" || len(text) > maxTemplate:
		f.Fail("template", "got %d bytes, want %s of at most %d", len(text), want, maxTemplate)
		return
	}
	t, err := template.New("template").Option("missingkey=error").Funcs(template.FuncMap{"json": toJSON}).Parse(text)
	if err != nil {
		f.Fail("template", "%s", templateError(err))
		return
	}
	e.template = t
	isJSON := e.Webhook.ContentType == "" || strings.HasPrefix(e.Webhook.ContentType, "application/json")
	for _, n := range samples() {
		body, err := e.Body(n)
		if err != nil {
			f.Fail("template", "cannot be filled with an event %s: %s", n.Type, templateError(err))
			return
		}
		if isJSON && !json.Valid(body) {
			f.Fail("template", "got no JSON with an event %s whose caller has quotes and a line break in its id; want texts as {{json .Text}}, without quotes around, or another content_type", n.Type)
			return
		}
	}
}

// toJSON is the function json of templates: any value as JSON, also a text with its quotes.
func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// places matches the positions that package text/template writes into its messages. templateError turns them into lines of the template,
// because the template is one value of the file.
var places = regexp.MustCompile(`template: template:(\d+)(:\d+)?: `)

// templateError returns what is wrong with a template, and in which line of it.
func templateError(err error) string {
	text := strings.TrimPrefix(err.Error(), ErrBody.Error()+": ")
	return document.Clip(places.ReplaceAllString(text, "line $1 of it: "))
}

// samples returns a notice of each type. The ids of their callers have the characters that a template may forget to escape.
func samples() []*Notice {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	worst := schemas.Caller{Kind: "key", ID: "\"'\\\n\t\x00<&>\u2028{{.}}\xff"}
	var all []*event.Event
	var list []*Notice
	for _, t := range event.Types() {
		e := &event.Event{
			Type: t, Time: at, Offset: 1, Caller: event.CallerOf(worst), Rule: "per-key", Mode: schemas.ModeEnforce.String(), CloseAt: at,
			Until: at.Add(time.Minute), Count: 100, Limit: 100, Nth: 1, Share: 0.8, Action: "close", Author: worst.ID, Reason: worst.ID, To: 2,
		}
		e.Identify()
		all = append(all, e)
		list = append(list, NewNotice(e))
	}
	for len(all) <= maxShown {
		all = append(all, all...)
	}
	return append(list, NewNotice(all...), TestNotice(all[0].ID, at))
}
