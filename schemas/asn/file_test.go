package asn

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas/asn/asntest"
)

// systems are of a hoster in a provider's network, of a network of IPv6, and of one without a number.
func systems() map[string]uint32 {
	return map[string]uint32{
		"203.0.112.0/20": 64500, "203.0.113.0/24": 64501, "198.51.100.7/32": 4294967295, "192.0.2.0/24": 0,
		"2001:db8::/32": 64502, "2001:db8:1::/48": 64500,
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestTheSmallestNetworkNamesTheSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asn.mmdb")
	write(t, path, asntest.Database(systems()))
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"203.0.112.1": "AS64500", "203.0.113.0": "AS64501", "203.0.113.255": "AS64501", "203.0.114.1": "AS64500", "203.0.128.1": "",
		"198.51.100.7": "AS4294967295", "198.51.100.6": "", "192.0.2.1": "", "::ffff:203.0.113.9": "AS64501",
		"2001:db8::1": "AS64502", "2001:db8:1::1": "AS64500", "2001:db8:1::1%eth0": "AS64500", "2001:db9::1": "", "::": "", "::203.0.113.9": "",
	} {
		if got := f.ID(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: got %q, want %q", addr, got, want)
		}
	}
	if got := f.ID(netip.Addr{}); got != "" {
		t.Errorf("no address: got %q, want none", got)
	}
	addr := netip.MustParseAddr("203.0.113.9")
	if n := testing.AllocsPerRun(100, func() { f.ID(addr) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// logLines is a log, a line at a time.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestAFileThatChangesIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "asn.mmdb")
		write(t, path, asntest.Database(systems()))
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := make(logLines, 10)
		go f.Watch(t.Context(), slog.New(slog.NewTextHandler(lines, nil)))
		step := func(want, logged string) {
			t.Helper()
			time.Sleep(3 * Checked)
			synctest.Wait()
			if got := f.ID(netip.MustParseAddr("203.0.113.9")); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			line := ""
			if len(lines) > 0 {
				line = <-lines
			}
			if !strings.Contains(line, logged) || (line == "") != (logged == "") || len(lines) > 0 {
				t.Errorf("got the line %q and %d more, want one with %q", line, len(lines), logged)
			}
		}
		step("AS64501", "")
		write(t, path, asntest.Database(map[string]uint32{"203.0.113.0/24": 64599}))
		step("AS64599", "autonomous systems changed")
		step("AS64599", "")
		write(t, path, []byte("half a file"))
		step("AS64599", path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		step("AS64599", "no such file")
		write(t, path, asntest.Database(systems()))
		step("AS64501", "autonomous systems changed")
	})
}

func TestWhatIsNoDatabaseIsRefused(t *testing.T) {
	good := asntest.Database(systems())
	meeting := bytes.Clone(good) // both branches of each of the first 90 nodes lead to the next one
	for node := range 90 {
		for branch := range 2 {
			copy(meeting[8*node+4*branch:], []byte{0, 0, 0, byte(node + 1)})
		}
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "want a database in MaxMind's format (.mmdb)"},
		"text":            {[]byte("64500,203.0.113.0/24\n"), "want a database in MaxMind's format (.mmdb)"},
		"cut":             {good[len(good)/2:], "asn.mmdb"},
		"of countries":    {asntest.DatabaseOf("country", systems()), `got a database of type "test-ASN" without autonomous_system_number`},
		"no networks":     {asntest.Database(nil), "without autonomous_system_number"},
		"branches meet":   {meeting, "branches meet"},
		"damaged records": {bytes.ReplaceAll(good, []byte("number\xc4"), []byte("number\x44")), "autonomous_system_number"},
	} {
		path := filepath.Join(t.TempDir(), "asn.mmdb")
		write(t, path, c.data)
		if _, err := Open(path); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error with the file and %q", name, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "large.mmdb")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, MaxSize+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "want at most 268435456") {
		t.Errorf("a large file: got %v, want its size refused", err)
	}
	if _, err := Open(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

// FuzzDatabase: whatever a file has, reading it ends, and each id that it gives is one.
func FuzzDatabase(f *testing.F) {
	f.Add(asntest.Database(systems()))
	f.Add(asntest.Database(map[string]uint32{"0.0.0.0/0": 1, "::/1": 2}))
	f.Add([]byte("\xab\xcd\xefMaxMind.com"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := newTable(data)
		if err != nil {
			return
		}
		for network := range table.networks.All() {
			if id := table.id(network.Addr()); !strings.HasPrefix(id, "AS") {
				t.Errorf("%v: got %q, want the id of a system", network, id)
			}
		}
	})
}
