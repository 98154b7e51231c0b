package endpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/notify/webhook"
)

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestURLsThatCanBeUsed, and what is wrong with others. No message repeats a path or a user.
func TestURLsThatCanBeUsed(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example.com":                   "",
		"http://a.example.com:8080/x?y=z":         "",
		"https://1.1.1.1/":                        "",
		"https://[2606:4700::1111]/":              "",
		"HTTPS://a.example.com":                   "",
		"":                                        `got the scheme ""`,
		"/secret":                                 `got the scheme ""`,
		"javascript:secret":                       `got the scheme "javascript"`,
		"https://a.example.com:port/secret":       "got no URL",
		"https://a.example.com/\x7fsecret":        "got no URL",
		"https://%zz/secret":                      "got no URL",
		"https:secret":                            "got no host",
		"https://:443/secret":                     "got no host",
		"https://me:secret@a.example.com/":        "got a user in it",
		"https://a.example.com/#secret":           "got a fragment",
		"https://127.0.0.1/secret":                "which is loopback",
		"https://[::1]/secret":                    "which is loopback",
		"https://[fe80::1%25eth0]/secret":         "which is link-local",
		"https://[::ffff:169.254.169.254]/secret": "which is link-local",
		"https://0.0.0.0/secret":                  "which is unspecified",
		"https://" + strings.Repeat("a", maxURL):  "got 2056 bytes, want at most 2048",
	} {
		err := checkURL(text, nil)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

// TestFilesAreRelativeToTheSettings, also through the links by which Kubernetes swaps a whole directory.
func TestFilesAreRelativeToTheSettings(t *testing.T) {
	dir := t.TempDir()
	version := func(name, host string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("version: 1\nendpoints: [{name: ops, url: https://%s.example.com, secret_files: ops.secret}]\n", host)
		for file, text := range map[string]string{"notify.yaml": text, "ops.secret": webhook.NewSecret()} {
			if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(dir, "..data")
		if err := os.Symlink(name, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "first")
	for _, file := range []string{"notify.yaml", "ops.secret"} {
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "notify.yaml")
	first, err := Load(path)
	if err != nil || first.Files[0] != filepath.Join(dir, "ops.secret") {
		t.Fatalf("got %v, want the secret beside the settings", err)
	}
	version("..2", "second")
	second, err := Load(path)
	if err != nil || second.Same(first) || second.Endpoints[0].Webhook.URL != "https://second.example.com" {
		t.Errorf("got %v, want what is there now", err)
	}
}

// TestAFileThatIsNoneIsRefused without waiting for it, and without reading much of it.
func TestAFileThatIsNoneIsRefused(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		large: "want at most 4096", os.DevNull: "want a regular file", "/dev/zero": "want a regular file", t.TempDir(): "want a regular file", large + "/x": "not a directory",
	} {
		text := fmt.Sprintf("version: 1\nendpoints: [{name: ops, url: https://a.example.com, secret_files: %q}]\n", path)
		if _, err := Parse("n", []byte(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
