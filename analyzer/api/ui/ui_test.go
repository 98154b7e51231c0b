package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// most is how many bytes all files have over the wire, by gzip.
const most = 70_000

func get(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// All of the dashboard is small over the wire.
func TestAllFilesAreSmall(t *testing.T) {
	t.Parallel()
	h := Handler()
	sum := 0
	for _, name := range names(t) {
		w := get(t, h, Prefix+name, "Accept-Encoding", "gzip, deflate, br")
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: got %d with encoding %q, want 200 by gzip", name, w.Code, w.Header().Get("Content-Encoding"))
		}
		sum += w.Body.Len()
		t.Logf("%7d %s", w.Body.Len(), name)
	}
	t.Logf("%7d bytes in all", sum)
	if sum > most {
		t.Errorf("got %d bytes over the wire, want at most %d", sum, most)
	}
}

// names returns the names of all files that browsers get.
func names(t *testing.T) []string {
	t.Helper()
	h, ok := Handler().(*handler)
	if !ok {
		t.Fatal("got another handler")
	}
	return slices.Sorted(maps.Keys(h.files))
}

// Each file is served with the headers that keep a page from doing harm, plain and by gzip alike.
func TestFilesAreServedSafely(t *testing.T) {
	t.Parallel()
	h := Handler()
	for _, name := range names(t) {
		plain, packed := get(t, h, Prefix+name), get(t, h, Prefix+name, "Accept-Encoding", "gzip")
		r, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
			t.Errorf("%s: got other bytes by gzip than without, %v", name, err)
		}
		for key, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
			"Vary": "Accept-Encoding", "Content-Encoding": "",
		} {
			if got := plain.Header().Get(key); got != want {
				t.Errorf("%s: %s: got %q, want %q", name, key, got, want)
			}
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("got the policy %q, want nothing but the page's own files", policy)
	}
}

// A browser that has a file is not sent it again.
func TestAFileThatIsKnownIsNotSent(t *testing.T) {
	t.Parallel()
	h := Handler()
	tag := get(t, h, "/ui/js/main.js").Header().Get("ETag")
	for _, c := range []struct {
		header string
		want   int
	}{
		{tag, http.StatusNotModified},
		{`"another", W/` + tag, http.StatusNotModified},
		{"*", http.StatusNotModified},
		{`"another"`, http.StatusOK},
		{"", http.StatusOK},
	} {
		if w := get(t, h, "/ui/js/main.js", "If-None-Match", c.header); w.Code != c.want || (w.Code == http.StatusNotModified && w.Body.Len() > 0) {
			t.Errorf("If-None-Match %q: got %d with %d bytes, want %d", c.header, w.Code, w.Body.Len(), c.want)
		}
	}
}

// Only clients that take gzip get it.
func TestTakesGzip(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"":                     false,
		"gzip":                 true,
		"GZIP":                 true,
		"gzip;q=1.0, *;q=0":    true,
		"deflate, gzip;q=0.5":  true,
		"gzip;q=0":             false,
		"gzip;q=0, *":          false,
		"*":                    true,
		"*;q=0":                false,
		"identity":             false,
		"br;q=x;;, gzip":       true,
		"gzipped":              false,
		"gzip;q=many":          false,
		strings.Repeat(",", 9): false,
	} {
		if got := takesGzip([]string{header}); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	h := Handler()
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/ui/", http.StatusOK},
		{http.MethodHead, "/ui/", http.StatusOK},
		{http.MethodGet, "/ui", http.StatusPermanentRedirect},
		{http.MethodPost, "/ui/", http.StatusMethodNotAllowed},
		{http.MethodGet, "/ui/js/", http.StatusNotFound},
		{http.MethodGet, "/ui/js/none.js", http.StatusNotFound},
		{http.MethodGet, "/ui/index.html", http.StatusNotFound},
		{http.MethodGet, "/ui/uplot/SHA256SUMS", http.StatusNotFound},
		{http.MethodGet, "/ui/../ui.go", http.StatusNotFound},
		{http.MethodGet, "/", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.want {
			t.Errorf("%s %s: got %d, want %d", c.method, c.path, w.Code, c.want)
		}
		if c.method == http.MethodHead && w.Body.Len() > 0 {
			t.Errorf("%s %s: got a body", c.method, c.path)
		}
		if to := w.Header().Get("Location"); c.want == http.StatusPermanentRedirect && to != "ui/" {
			t.Errorf("%s: got sent to %q, want a relative address", c.path, to)
		}
	}
}

// The page names each of its modules, so that a browser asks for them all at once, and nothing that the policy forbids is in it.
func TestIndex(t *testing.T) {
	t.Parallel()
	index := get(t, Handler(), Prefix).Body.String()
	for _, name := range names(t) {
		if strings.HasPrefix(name, "js/") && !strings.Contains(index, `<link rel="modulepreload" href="`+name+`">`) {
			t.Errorf("got no link to %s", name)
		}
	}
	inline := regexp.MustCompile(`(?i)<script(?:[^>]*)>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|https?://`)
	if found := inline.FindString(index); found != "" {
		t.Errorf("got %q in index.html, which the policy forbids", found)
	}
}

// The files of others are those that the checksums beside them say. uplot.sh fetches them anew.
func TestUPlotIsWhatItsChecksumsSay(t *testing.T) {
	t.Parallel()
	sums, err := assets.ReadFile("assets/uplot/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		text, err := assets.ReadFile("assets/uplot/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(text); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: got %x, want %s", name, got, sum)
		}
		listed = append(listed, name)
	}
	entries, err := fs.ReadDir(assets, "assets/uplot")
	if err != nil || len(entries) != len(listed)+1 || !slices.Contains(listed, "LICENSE") {
		t.Errorf("got %d files and the checksums of %v, want all files listed, the licence too", len(entries), listed)
	}
	script, err := os.ReadFile("uplot.sh")
	if err != nil || !bytes.Contains(script, []byte("VERSION=1.6.32\n")) {
		t.Errorf("got another version in uplot.sh, or %v, want that of the files", err)
	}
}

// No module is longer than a reader can hold in mind, says what it is for first, or makes markup of text.
func TestModules(t *testing.T) {
	t.Parallel()
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|setHTML`)
	for _, name := range names(t) {
		if !strings.HasPrefix(name, "js/") {
			continue
		}
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > 300 {
			t.Errorf("%s: got %d lines, want at most 300", name, n)
		}
		if !bytes.HasPrefix(text, []byte("// ")) {
			t.Errorf("%s: got no comment at its head, want what it is for", name)
		}
		if found := markup.Find(text); found != nil {
			t.Errorf("%s: got %s, want text nodes only", name, found)
		}
	}
}

// A module that no browser could read is missed when the handler is made, and named.
func TestReadNeedsModulesThatCanBeRead(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"index.html": {Data: []byte(preloads)}, "js/broken.js": {Data: []byte("export function (")}}
	if _, err := read(files); err == nil || !strings.Contains(err.Error(), "js/broken.js") {
		t.Errorf("got %v, want an error that names the module", err)
	}
}

// Files without which there is no page are missed when the handler is made, not when a person comes.
func TestReadNeedsAnIndex(t *testing.T) {
	t.Parallel()
	for _, files := range []fstest.MapFS{{}, {"index.html": {Data: []byte("<!doctype html>")}}} {
		if _, err := read(files); err == nil || !strings.Contains(err.Error(), preloads) {
			t.Errorf("got %v of %d files, want an error that names the line", err, len(files))
		}
	}
}

// Whatever a client says that it takes or has, it gets an answer that it can read.
func FuzzServe(f *testing.F) {
	f.Add("/ui/js/main.js", "gzip;q=0.1,*", `W/"a", "b"`)
	f.Add("/ui", "", "*")
	h := Handler()
	f.Fuzz(func(t *testing.T, path, encoding, tags string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set("If-None-Match", tags)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("got %d with the policy %q", w.Code, w.Header().Get("Content-Security-Policy"))
		}
		if w.Header().Get("Content-Encoding") == "gzip" && !strings.Contains(strings.ToLower(encoding), "gzip") && !strings.Contains(encoding, "*") {
			t.Errorf("got gzip for %q", encoding)
		}
	})
}
