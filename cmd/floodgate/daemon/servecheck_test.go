package daemon

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/store"
)

// TestCheckBesideARunningServe: its addresses and its data are in use, and that is as it should be. Without it, an address that is in use
// is one that serve cannot have.
func TestCheckBesideARunningServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, cmd := serveConfig{keep: command.Duration(defaultKeep), keepBytes: defaultKeepBytes}, new(cobra.Command)
	c.add(cmd)
	flags := []string{"--record", "--data", t.TempDir(), "--listen", l.Addr().String(), "--metrics-listen", "", "--api-listen", ""}
	if err := errors.Join(cmd.ParseFlags(flags), c.check()); err != nil {
		t.Fatal(err)
	}
	look := func() (string, error) {
		var out bytes.Buffer
		err := c.printFindings(command.Process{Stdout: &out})
		return out.String(), err
	}
	if out, err := look(); err == nil || !strings.Contains(err.Error(), "1 thing would not work") || !strings.Contains(out, "is in use by another process") {
		t.Errorf("without serve: got %v and\n%s\nwant the address in use, which is one thing that would not work", err, out)
	}
	lock, err := store.Lock(c.data)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if out, err := look(); err != nil || !strings.Contains(out, "serve runs") {
		t.Errorf("beside serve: got %v and\n%s\nwant that it runs, and nothing wrong", err, out)
	}
}
