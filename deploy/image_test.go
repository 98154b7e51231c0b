package deploy

import (
	"context"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// image is the root directory of a container, and how to start a process in it.
type image struct {
	root     string
	env      []string
	entry    string
	uid, gid int
}

// testVersion is given to the build. The binary must print it.
const testVersion = "v0.0.0-test"

// buildImages runs the RUN commands of the build stage as they stand, in the repository and with /out elsewhere, and
// returns a function that makes the image of a target from its COPY lines.
func buildImages(t *testing.T) func(target string) *image {
	t.Helper()
	stages := dockerfile(t)
	out := t.TempDir()
	build := stages["build"]
	for _, run := range build.runs {
		if run == "go mod download" {
			continue // this test was built: they are here
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "sh", "-ec", strings.ReplaceAll(run, "/out/", out+"/"))
		c.Dir = ".."
		c.Env = append(slices.Concat(os.Environ(), build.env), "VERSION="+testVersion)
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", run, err, b)
		}
	}
	return func(target string) *image {
		t.Helper()
		s := stages[target]
		i := &image{root: t.TempDir(), entry: s.entry, env: s.env}
		uid, gid, _ := strings.Cut(s.user, ":")
		i.uid, i.gid = number(t, uid), number(t, gid)
		if err := os.Chmod(i.root, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, args := range s.copy {
			i.add(t, args, out)
		}
		return i
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// add carries out one COPY.
func (i *image) add(t *testing.T, args []string, out string) {
	t.Helper()
	owner := ""
	if o, ok := strings.CutPrefix(args[0], "--chown="); ok {
		owner, args = o, args[1:]
	}
	from, to := strings.Replace(args[0], "/out/", out+"/", 1), filepath.Join(i.root, args[1])
	if strings.HasSuffix(args[1], "/") {
		to = filepath.Join(to, filepath.Base(from))
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		err = os.Mkdir(to, 0o755)
	} else {
		err = copyFile(from, to, info.Mode())
	}
	if err != nil {
		t.Fatal(err)
	}
	if uid, gid, _ := strings.Cut(owner, ":"); owner != "" && os.Geteuid() == 0 {
		if err := os.Chown(to, number(t, uid), number(t, gid)); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// mount puts a file of this directory into the image, as a volume does.
func (i *image) mount(t *testing.T, file, at string) {
	t.Helper()
	to := filepath.Join(i.root, at)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(file, to, 0o644); err != nil {
		t.Fatal(err)
	}
}

// command returns a process in the image: root sees its directory only and is its user; others can do no such thing, and
// start the same binary where they are.
func (i *image) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(i.root, i.entry), args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 30 * time.Second
	c.Env = slices.Concat(i.env, env)
	if os.Geteuid() == 0 {
		c.Path, c.Args[0], c.Dir = i.entry, i.entry, "/"
		c.SysProcAttr = &syscall.SysProcAttr{
			Chroot:     i.root,
			Credential: &syscall.Credential{Uid: uint32(i.uid), Gid: uint32(i.gid)},
		}
		return c
	}
	for n, v := range c.Env {
		if name, path, _ := strings.Cut(v, "="); strings.HasPrefix(path, "/") {
			c.Env[n] = name + "=" + filepath.Join(i.root, path)
		}
	}
	return c
}

// TestImage runs what the image holds, where it holds it.
func TestImage(t *testing.T) {
	testenv.Long(t)
	target := buildImages(t)
	floodgate, example := target("floodgate"), target("example")

	t.Run("one static binary each", func(t *testing.T) {
		for _, i := range []*image{floodgate, example} {
			f, err := elf.Open(filepath.Join(i.root, i.entry))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
				t.Errorf("%s: got libraries %q (%v), want none: it is not static", i.entry, libraries, err)
			}
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP {
					t.Errorf("%s: got an interpreter, want none: it is not static", i.entry)
				}
			}
		}
	})
	t.Run("says its version", func(t *testing.T) {
		out, err := floodgate.command(t.Context(), nil, "version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "floodgate "+testVersion+" ") {
			t.Errorf("got %q (%v), want floodgate %s", out, err, testVersion)
		}
	})
	t.Run("knows the time zones of the rules", func(t *testing.T) {
		floodgate.mount(t, "rules/rules.yaml", "/etc/floodgate/rules.yaml")
		path := "/etc/floodgate/rules.yaml"
		if os.Geteuid() != 0 {
			path = filepath.Join(floodgate.root, path)
		}
		out, err := floodgate.command(t.Context(), nil, "rules", "check", path).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "monthly-quota") {
			t.Errorf("got %v, want the rules accepted\n%s", err, out)
		}
	})
	t.Run("has every setting that is written down", func(t *testing.T) { testSettings(t, floodgate) })
	t.Run("has every setting of the manifests for Kubernetes", func(t *testing.T) { testKubernetes(t, floodgate) })
	t.Run("does what the compose file wants of it", func(t *testing.T) { testCompose(t, floodgate, example) })
	t.Run("does what compose-serve.yaml wants of it", func(t *testing.T) { testComposeServe(t, target("floodgate")) })
	t.Run("serves the API as the manifests for Kubernetes want it", func(t *testing.T) { testKubernetesAPI(t, target("floodgate")) })
	t.Run("answers each expression of dashboards and alerts", func(t *testing.T) { testExpressions(t, target("floodgate"), target("example")) })
}
