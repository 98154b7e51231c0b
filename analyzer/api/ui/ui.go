package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/js"
)

//go:generate sh uplot.sh

//go:embed assets
var assets embed.FS

// Prefix is where the page expects to be: its files are below it, and the API is beside it, at /v1/.
const Prefix = "/ui/"

// policy lets the page use its own files and its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// preloads is the line of index.html in whose place the modules are named, so that a browser fetches them all at once.
const preloads = "<!-- modules -->"

// file is one file as it is sent.
type file struct {
	kind          string // Content-Type
	tag           string // ETag, in quotes
	plain, packed []byte // packed is the same by gzip
}

// handler serves files by their names below Prefix; index.html is the name "".
type handler struct{ files map[string]*file }

// Handler returns the page, for /ui and for all paths below Prefix. It keeps about 200 KiB. Any goroutine may use it.
func Handler() http.Handler {
	root, err := fs.Sub(assets, "assets")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	files, err := read(root)
	if err != nil {
		panic("BUG: the files of the dashboard: " + err.Error())
	}
	return &handler{files}
}

// read returns the files that browsers get.
func read(root fs.FS) (map[string]*file, error) {
	files := make(map[string]*file)
	var modules []string
	small := minify.New()
	small.AddFunc("text/javascript", js.Minify)
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		kind := kindOf(name)
		if kind == "" {
			return nil // a licence, a list of checksums
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, "js/") {
			modules = append(modules, name)
			// Readers of the source need comments and long names, browsers do not.
			if text, err = small.Bytes(kind, text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		files[name], err = pack(kind, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	index := files["index.html"]
	if index == nil || !bytes.Contains(index.plain, []byte(preloads)) {
		return nil, fmt.Errorf("index.html: got no line %q", preloads)
	}
	files[""], err = pack(index.kind, bytes.Replace(index.plain, []byte(preloads), links(modules), 1))
	delete(files, "index.html")
	return files, err
}

// kindOf returns the type of a file that browsers get; "" for others.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return ""
}

// links returns a link for each module.
func links(modules []string) []byte {
	var text bytes.Buffer
	for i, name := range modules {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, `<link rel="modulepreload" href="%s">`, name)
	}
	return text.Bytes()
}

func pack(kind string, text []byte) (*file, error) {
	sum := sha256.Sum256(text)
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &file{kind: kind, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: text, packed: packed.Bytes()}, nil
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "the dashboard is read with GET", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path+"/" == Prefix {
		// A relative address: it holds behind a proxy that serves the analyzer below a path of its own. A browser keeps the fragment.
		head.Set("Location", "ui/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	name, below := strings.CutPrefix(r.URL.Path, Prefix)
	f := h.files[name]
	if !below || f == nil {
		http.Error(w, "the dashboard has no such file", http.StatusNotFound)
		return
	}
	f.serve(w, r)
}

// serve sends a file, by gzip to a client that takes it, or says that the client has it already.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", "no-cache") // the next version of the analyzer has other files under the same names
	head.Set("Vary", "Accept-Encoding")
	head.Set("ETag", f.tag)
	if known(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if takesGzip(r.Header.Values("Accept-Encoding")) {
		head.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // fails if the client has left
	}
}

// known reports whether a list of entity tags has this one (RFC 9110, section 13.1.2).
func known(list, tag string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

// takesGzip reports whether Accept-Encoding names gzip, or anything, with a weight that is not 0 (RFC 9110, section 12.5.3).
func takesGzip(values []string) bool {
	others := false
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, params, err := mime.ParseMediaType("x/" + strings.TrimSpace(one))
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		takes := params["q"] == "" || (err == nil && q > 0)
		switch strings.TrimPrefix(name, "x/") {
		case "gzip":
			return takes
		case "*":
			others = takes
		}
	}
	return others
}
