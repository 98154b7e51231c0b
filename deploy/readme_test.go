package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"go/format"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestReadmeServer compiles the server that the README shows, as it stands but for two addresses, and runs it: it must serve
// although there is no Kafka, which is how a stranger tries it first.
func TestReadmeServer(t *testing.T) {
	readme := readFile(t, "../README.md")
	blocks := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) != 1 {
		t.Fatalf("got %d programs in the README, want one", len(blocks))
	}
	program := blocks[0][1]
	if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
		t.Errorf("got a program that gofmt changes (%v), want\n%s", err, formatted)
	}
	module, _, _ := strings.Cut(strings.TrimPrefix(readFile(t, "../go.mod"), "module "), "\n")
	if want := "`go get " + module + "@latest`"; !strings.Contains(readme, want) {
		t.Errorf("got a README without %s, want it before the program", want)
	}
	const address, broker = `":8080"`, `"kafka:9092"`
	if strings.Count(program, address) != 1 || strings.Count(program, broker) != 1 {
		t.Fatalf("got\n%s\nwant it to name %s and %s once", program, address, broker)
	}
	addr := testenv.FreeAddress(t)
	program = strings.Replace(program, address, `"`+addr+`"`, 1)
	program = strings.Replace(program, broker, `"`+testenv.FreeAddress(t)+`"`, 1) // nobody listens there
	binary := filepath.Join(t.TempDir(), "server")
	compile(t, program, binary)
	serves(t, binary, "http://"+addr+"/", "hello\n")
}

// compile builds a program as if it were a package of this repository.
func compile(t *testing.T, program, binary string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	source, overlay := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "overlay.json")
	pretended := filepath.Join(root, "deploy", "readmeserver", "main.go")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{pretended: source}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{source: []byte(program), overlay: replace} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, "./deploy/readmeserver")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s\n%s", err, out, program)
	}
}

// serves starts a server, and waits until it answers url with body.
func serves(t *testing.T, binary, url, body string) {
	t.Helper()
	var output bytes.Buffer
	c := exec.CommandContext(t.Context(), binary)
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	stop := func() { _ = c.Process.Kill(); <-ended }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		got, err := ask(ctx, url)
		switch {
		case err == nil && got == body:
			stop()
			return
		case err == nil:
			t.Errorf("got %q, want %q", got, body)
			stop()
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("got the server's end (%v), want it to serve\n%s", err, output.String())
		case <-ctx.Done():
			stop()
			t.Fatalf("got no answer (%v), want %q\n%s", err, body, output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask returns the body of an answer.
func ask(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
