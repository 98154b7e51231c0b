package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
)

// url reads the URL, from the file or from a file that it names.
func (f endpointParser) url(allowed webhook.Allowed) string {
	switch {
	case f.Has("url") && f.Has("url_file"):
		f.Fail("url_file", "got url too, want one of them")
		return ""
	case f.Has("url_file"):
		text, ok := f.file("url_file", f.Value("url_file"))
		if !ok {
			return ""
		}
		text = strings.TrimSpace(text)
		if err := checkURL(text, allowed); err != nil {
			f.Fail("url_file", "%v", err)
		}
		return text
	case f.Lacks("url"):
		f.Fail("url", "missing, want https://… here, or a url_file")
		return ""
	}
	text, ok := f.Text("url", "https://…")
	if !ok {
		return ""
	}
	if err := checkURL(text, allowed); err != nil {
		f.Fail("url", "%v", err)
	} else if host := unencrypted(text); host != "" {
		f.Warn("url", "messages to %s are not encrypted: want https", host)
	}
	return text
}

// checkURL returns what is wrong with a URL, without repeating more of it than its scheme and an address.
func checkURL(text string, allowed webhook.Allowed) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return fmt.Errorf("got %d bytes, want at most %d", len(text), maxURL)
	case err != nil:
		return errors.New("got no URL, want https://…")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("got the scheme %q, want https or http", document.Clip(u.Scheme))
	case u.Hostname() == "":
		return errors.New("got no host, want https://host/…")
	case u.User != nil:
		return errors.New("got a user in it, want none")
	case u.Fragment != "":
		return errors.New("got a fragment, which is never sent, want none")
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		return allowed.Check(address)
	}
	return nil
}

// unencrypted returns the host of a URL if messages to it may cross foreign networks unencrypted, or "".
func unencrypted(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return ""
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil && webhook.Allowed(nil).Check(address) != nil {
		return "" // it is private
	}
	return u.Hostname()
}

func (f endpointParser) secrets() (secrets []webhook.Secret) {
	if f.Lacks("secret_files") && f.Lacks("template") {
		f.Fail("secret_files", "missing, want a file with a secret; only an endpoint with a template may go without")
	}
	for _, v := range f.List("secret_files", maxSecrets) {
		text, ok := f.file("secret_files", v)
		if !ok {
			continue
		}
		s, err := webhook.ParseSecret(text)
		if err != nil {
			name, _ := v.Text()
			f.doc.Errorf(v.Position(), "secret_files: %s: %v", document.Clip(name), err)
			continue
		}
		secrets = append(secrets, s)
	}
	return secrets
}

// file reads a file that a value names.
func (f endpointParser) file(field string, v document.Value) (text string, ok bool) {
	name, ok := v.Text()
	if !ok || name == "" {
		f.doc.Errorf(v.Position(), "%s: got %s, want the name of a file", field, v)
		return "", false
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.dir, path)
	}
	f.files = append(f.files, path)
	data, err := readSmall(path)
	if err != nil {
		f.doc.Errorf(v.Position(), "%s: %v", field, err)
		return "", false
	}
	f.sum.Write(fmt.Appendf(nil, "\x00%d\x00", len(data)))
	f.sum.Write(data)
	return string(data), true
}

// readSmall reads a regular file of at most maxFile bytes.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: got %v, want a regular file", path, info.Mode().Type())
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s: got %d bytes, want at most %d", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}
