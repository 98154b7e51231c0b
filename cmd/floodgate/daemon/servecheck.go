package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/store"
)

// finding is a line of --check.
type finding struct {
	what, found string
	bad         bool // serve cannot work with it
}

// printFindings prints what serve would find, or finds while it runs, and changes nothing. The error is a usage error if serve could not work.
func (c *serveConfig) printFindings(p command.Process) error {
	var all []finding
	for _, path := range c.files {
		all = append(all, c.lookAtLog(path, time.Now())...)
	}
	all = append(all, c.lookAtRules())
	owner, running := store.LockedBy(c.data)
	if running {
		all = append(all, finding{"data " + c.data, fmt.Sprintf("is in use by %q: serve runs", owner), false})
	} else {
		all = append(all, c.lookAtData()...)
	}
	for _, flag := range []struct{ name, address string }{{"listen", c.listen}, {"metrics-listen", c.metrics}, {"api-listen", c.api}, {"bouncer-listen", c.bouncer.listen}} {
		if flag.address != "" {
			all = append(all, lookAtAddress(flag.name, flag.address, running))
		}
	}
	t := terminal.NewTable(p.Stdout, "what", "found", "")
	bad := 0
	for _, f := range all {
		verdict := "ok"
		if f.bad {
			verdict = "BAD"
			bad++
		}
		t.AppendRow(terminal.Cells(f.what, f.found, verdict))
	}
	t.Render()
	if bad > 0 {
		return command.Usagef("serve --check: %s would not work", terminal.Amount(bad, "thing"))
	}
	return nil
}

// sampled is how many lines of a log are read to find its format.
const sampled = 1000

// lookAtLog looks at a log, its format, and the time of its last line.
func (c *serveConfig) lookAtLog(path string, now time.Time) []finding {
	if err := checkFile(path); err != nil {
		return []finding{{"log " + path, err.Error(), true}}
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{{"log " + path, "is not there yet: it is read when it comes", false}}
	}
	if err != nil {
		return []finding{{"log " + path, err.Error(), true}}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return []finding{{"log " + path, err.Error(), true}}
	}
	all := []finding{{"log " + path, humanize.Bytes(uint64(info.Size())) + ", last written " + humanize.RelTime(info.ModTime(), now, "ago", "from now"), false}}
	format, err := c.mapping.Load()
	if err == nil {
		err = c.countsOnce(format)
	}
	if err != nil {
		return append(all, finding{"format", err.Error(), true})
	}
	var name string
	scanner := format.Reporting(func(found ingest.Finding) { name = found.Format }).Scanner()
	read, good := 0, 0
	var newest int64
	text := bufio.NewScanner(f)
	text.Buffer(nil, 1<<20)
	for text.Scan() && read < sampled {
		var l ingest.Line
		read++
		if ingest.Scan(scanner, text.Bytes(), &l) == ingest.OK {
			good++
			newest = max(newest, l.Time)
		}
	}
	if name == "" {
		name = format.Name()
	}
	all = append(all, finding{"format", fmt.Sprintf("%s reads %d of the first %d lines", name, good, read), read > 0 && good == 0})
	if ahead := time.Unix(0, newest).Sub(now); newest > 0 && ahead > time.Minute {
		all = append(all, finding{"clock", fmt.Sprintf("a line is %v ahead of this machine's clock", ahead.Round(time.Second)), true})
	}
	return all
}

// lookAtRules reads the rules, or says that there will be a proposal.
func (c *serveConfig) lookAtRules() finding {
	what := "rules " + c.rules
	set, err := c.mapping.IDs.Rules(c.rules)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.rules == option.LocalRules(c.data):
		return finding{what, "are not there yet: serve writes a proposal, which blocks nobody", false}
	case err != nil:
		return finding{what, err.Error(), true}
	}
	return finding{what, terminal.Amount(len(set.Rules), "rule"), false}
}

// lookAtData looks at the data directory, or at the one in which it would be made.
func (c *serveConfig) lookAtData() []finding {
	dir := c.data
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return []finding{{"data " + c.data, err.Error(), true}}
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	_, free, err := store.Disk(dir)
	if err != nil {
		return []finding{{"data " + c.data, err.Error(), true}}
	}
	all := []finding{{"data " + c.data, "can be written; " + humanize.Bytes(uint64(free)) + " free", false}}
	if free < int64(c.keepBytes) {
		all = append(all, finding{"room", fmt.Sprintf("--keep-bytes %v is more than what is free: reading waits when the disk is full", &c.keepBytes), false})
	}
	if network := networkFileSystem(dir); network != "" {
		all = append(all, finding{"file system", network + ": locks and syncs may not hold there; want a local disk", true})
	}
	return all
}

// lookAtAddress tries to listen, unless somebody listens there already. While serve runs, that is serve.
func lookAtAddress(flag, address string, running bool) finding {
	what, network, to := "address "+address, "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, to = "unix", path
	}
	if c, err := net.DialTimeout(network, to, time.Second); err == nil {
		_ = c.Close()
		if running {
			return finding{what, "is in use while serve runs, for --" + flag, false}
		}
		return finding{what, "--" + flag + ": is in use by another process", true}
	}
	l, err := httpd.Listen(flag, address)
	if err != nil {
		return finding{what, err.Error(), true}
	}
	_ = l.Close()
	return finding{what, "is free, for --" + flag, false}
}
