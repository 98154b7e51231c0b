package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// picture is one file, and what a person sees in it.
type picture struct {
	name  string
	route string
	ready string // an expression that is true when all of it is there
	view  view
}

func pictures() []picture {
	closed := `[...document.querySelectorAll("[data-panel=closed] .sizer .row")].every((r) => r.hidden || parseInt(r.querySelector(".until").textContent) > 4) && document.querySelectorAll("[data-panel=busiest] tbody tr").length > 5`
	return []picture{
		{"dashboard.png", "#/", closed, view{width: 1280, height: 760}},
		{"dashboard-caller.png", "#/caller/key:noisy-1", `document.querySelector(".verdict").dataset.verdict === "closed" && document.querySelector(".slot")`, view{width: 1280, height: 780, dark: true}},
		{"dashboard-narrow.png", "#/", closed, view{width: 360, height: 740}},
	}
}

func main() {
	dir := filepath.Join("..", "..", "..", "..", ".github")
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, "uitest:", err)
		os.Exit(1)
	}
}

// run starts a demo, looks at its dashboard, and writes the pictures into a directory.
func run(ctx context.Context, dir string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scratch, err := os.MkdirTemp("", "floodgate-uitest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	program, err := buildProgram(ctx, scratch)
	if err != nil {
		return err
	}
	link, stop, err := startDemo(ctx, program, scratch, "--window", "20s", "--noisy", "3", "--quiet", "12", "--noisy-rate", "60", "--limit", "300")
	if err != nil {
		return err
	}
	defer stop()
	b, err := openBrowser(ctx)
	if err != nil {
		return err
	}
	defer b.stop()
	t, err := b.open(link, view{})
	if err != nil {
		return err
	}
	fmt.Println("waiting a minute, so that the charts have something to show")
	time.Sleep(time.Minute)
	for _, p := range pictures() {
		if err := t.take(p, filepath.Join(dir, p.name)); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// take writes one picture. The tab stays the same: a link works once.
func (t *tab) take(p picture, path string) error {
	if err := t.run(look(p.view)); err != nil {
		return err
	}
	if _, err := value[string](t, fmt.Sprintf("location.hash = %q", p.route)); err != nil {
		return err
	}
	if err := t.until(p.ready); err != nil {
		return err
	}
	if err := t.rest(); err != nil {
		return err
	}
	png, err := t.picture()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes\n", path, len(png))
	return os.WriteFile(path, png, 0o644)
}

// startDemo starts floodgate demo --dashboard with flags more, and returns the link that it prints and how to stop it.
func startDemo(ctx context.Context, program, dir string, flags ...string) (link string, stop func(), err error) {
	command := exec.CommandContext(ctx, program, append([]string{"demo", "--dashboard"}, flags...)...)
	command.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	ended := make(chan struct{})
	stop = func() {
		_ = command.Process.Kill()
		<-ended
	}
	links := make(chan string, 1)
	go func() { // reads to the end: a demo that nobody reads would stop
		defer close(ended)
		find := regexp.MustCompile(`http://\S+/ui/#token=\S+`)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if found := find.FindString(line); found != "" {
				select {
				case links <- found:
				default:
				}
			}
			if err != nil {
				_, _ = io.Copy(io.Discard, out)
				_ = command.Wait()
				return
			}
		}
	}()
	select {
	case link = <-links:
		return link, stop, nil
	case <-time.After(patience):
		stop()
		return "", nil, errors.New("start the demo: got no link")
	}
}
