package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// inside returns a process that exists only in the test: its output, and an environment.
func inside(out io.Writer, env map[string]string) process {
	return process{stdin: strings.NewReader(""), stdout: out, stderr: out, lookup: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok || name+"=" == processtest.NoAPI
	}}
}

// isUsage reports whether err makes the process exit 2.
func isUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

func TestFlagsGoBeforeTheEnvironmentAndThatBeforeDefaults(t *testing.T) {
	type values struct {
		brokers []string
		wait    time.Duration
		max     int
		loud    bool
		out     outputFlag
	}
	defaults := values{brokers: []string{"default:1"}, wait: time.Second, max: 7}
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want func(v *values) // of the defaults
		err  string          // part of the usage error; empty is none
	}{
		{name: "neither", want: func(*values) {}},
		{
			name: "flags", args: []string{"--brokers", "a:1,b:2", "--max-rows=3", "--loud", "--output", "json"},
			want: func(v *values) {
				v.brokers, v.max, v.loud, v.out.json = []string{"a:1", "b:2"}, 3, true, true
			},
		},
		{
			name: "environment", env: map[string]string{"FLOODGATE_BROKERS": "a:1,b:2", "FLOODGATE_MAX_ROWS": "3", "FLOODGATE_LOUD": "1", "FLOODGATE_WAIT": "1m"},
			want: func(v *values) {
				v.brokers, v.max, v.loud, v.wait = []string{"a:1", "b:2"}, 3, true, time.Minute
			},
		},
		{
			name: "each flag by itself", args: []string{"--brokers", "flag:1", "--brokers", "flag:2"},
			env:  map[string]string{"FLOODGATE_BROKERS": "env:1", "FLOODGATE_WAIT": "1m"},
			want: func(v *values) { v.brokers, v.wait = []string{"flag:1", "flag:2"}, time.Minute },
		},
		{
			name: "a flag given its own default", args: []string{"--max-rows", "7"}, env: map[string]string{"FLOODGATE_MAX_ROWS": "9"},
			want: func(*values) {},
		},
		{name: "a variable that is empty is given", env: map[string]string{"FLOODGATE_BROKERS": ""}, want: func(v *values) { v.brokers = []string{} }},
		{name: "and may be wrong so", env: map[string]string{"FLOODGATE_MAX_ROWS": ""}, err: `FLOODGATE_MAX_ROWS: `},
		{name: "a wrong variable under a flag is not read", args: []string{"--wait", "2s"}, env: map[string]string{"FLOODGATE_WAIT": "soon"}, want: func(v *values) { v.wait = 2 * time.Second }},
		{name: "names are upper case", env: map[string]string{"floodgate_max_rows": "9", "FLOODGATE_max_rows": "9", "FLOODGATE_MAX-ROWS": "9", "MAX_ROWS": "9"}, want: func(*values) {}},
		{name: "variables of nobody", env: map[string]string{"FLOODGATE_NO_SUCH_FLAG": "1"}, want: func(*values) {}},
		{name: "a flag of nobody", args: []string{"--no-such-flag"}, err: "unknown flag: --no-such-flag; see floodgate try --help"},
		{name: "a value of nothing", args: []string{"--max-rows"}, err: "needs an argument: --max-rows"},
		{name: "a wrong value", args: []string{"--output", "xml"}, err: `got "xml", want table or json`},
		{name: "wrong variables are all said", env: map[string]string{"FLOODGATE_WAIT": "soon", "FLOODGATE_OUTPUT": "xml"}, err: `FLOODGATE_OUTPUT: invalid argument "xml"`},
		{name: "the first as well", env: map[string]string{"FLOODGATE_WAIT": "soon", "FLOODGATE_OUTPUT": "xml"}, err: `FLOODGATE_WAIT: invalid argument "soon"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got values
			flags := newFlags("try [flags]")
			flags.StringSliceVar(&got.brokers, "brokers", defaults.brokers, "")
			flags.DurationVar(&got.wait, "wait", defaults.wait, "")
			flags.IntVar(&got.max, "max-rows", defaults.max, "")
			flags.BoolVar(&got.loud, "loud", defaults.loud, "")
			flags.Var(&got.out, "output", "")
			var out strings.Builder
			err := parseFlags(inside(&out, test.env), flags, test.args)
			if out.Len() > 0 {
				t.Errorf("got output %q, want none: the error says it", out.String())
			}
			if test.err != "" {
				if !isUsage(err) || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v, want one of usage with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := defaults
			test.want(&want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestFlagsOnly(t *testing.T) {
	for _, name := range []string{"analyze", "broker", "demo", "sidecar", "store", "topics", "version"} {
		t.Run(name, func(t *testing.T) {
			_, err := runCommand(name, "surprise")
			if want := name + `: got ["surprise"], want flags only`; !isUsage(err) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// TestHelp: each subcommand explains itself, to whoever asks and whatever else is wrong, in columns that are columns.
func TestHelp(t *testing.T) {
	for _, c := range subcommands() {
		for _, ask := range [][]string{{"--help"}, {"-h"}, {"--help", "--no-such-flag"}} {
			out, err := runCommand(append([]string{c.name}, ask...)...)
			if !errors.Is(err, pflag.ErrHelp) || exitCode(err, io.Discard) != 0 {
				t.Fatalf("%s %q: got %v, want help and no failure", c.name, ask, err)
			}
			if !strings.HasPrefix(out, "Usage: floodgate "+c.name) {
				t.Errorf("%s %q: got %q, want its usage", c.name, ask, out)
			}
			column := 0
			for line := range strings.Lines(out) {
				if !strings.HasPrefix(line, "      --") {
					continue
				}
				flag, text, _ := strings.Cut(strings.TrimLeft(line, " "), "   ")
				at := utf8.RuneCountInString(line) - utf8.RuneCountInString(strings.TrimLeft(text, " "))
				if column == 0 {
					column = at
				}
				if at != column || strings.TrimSpace(text) == "" {
					t.Errorf("%s: the text of %s: got %q in column %d, want one in %d as above", c.name, flag, text, at, column)
				}
			}
		}
	}
}

func TestOutputFlag(t *testing.T) {
	var o outputFlag
	if o.String() != "table" || o.Type() != "format" {
		t.Errorf("zero value: got %s of type %s, want table of type format", o.String(), o.Type())
	}
	for _, text := range []string{"json", "table", "json"} {
		if err := o.Set(text); err != nil || o.String() != text || o.json != (text == "json") {
			t.Errorf("%s: got %v, %+v", text, err, o)
		}
	}
	for _, text := range []string{"", "JSON", "yaml", "json "} {
		if err := o.Set(text); err == nil || !o.json {
			t.Errorf("%q: got %v, %+v, want it refused and nothing changed", text, err, o)
		}
	}
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		code   int
		output string
	}{
		{"nothing wrong", nil, 0, ""},
		{"help", pflag.ErrHelp, 0, ""},
		{"help inside", fmt.Errorf("parse: %w", pflag.ErrHelp), 0, ""},
		{"usage", usagef("--limit: got %d", 0), 2, "floodgate: --limit: got 0\n"},
		{"usage inside", fmt.Errorf("demo: %w", usagef("no")), 2, "floodgate: demo: no\n"},
		{"usage among others", errors.Join(io.ErrUnexpectedEOF, usagef("no")), 2, "floodgate: unexpected EOF\n    no\n"},
		{"failure", io.ErrUnexpectedEOF, 1, "floodgate: unexpected EOF\n"},
		{"interrupted", context.Canceled, 1, "floodgate: context canceled\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var output strings.Builder
			if code := exitCode(test.err, &output); code != test.code || output.String() != test.output {
				t.Errorf("got %d and %q, want %d and %q", code, output.String(), test.code, test.output)
			}
		})
	}
	if err := usagef("read: %w", io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want what is wrapped to be found", err)
	}
}

func TestRealMain(t *testing.T) {
	var names []string
	for _, c := range subcommands() {
		if slices.Contains(names, c.name) || c.summary == "" || c.run == nil {
			t.Errorf("got %+v, want a name of its own, a summary and what to do", c)
		}
		names = append(names, c.name)
	}
	for _, ask := range []string{"help", "-h", "--help", "help --help"} {
		out, err := runCommand(strings.Fields(ask)...)
		if err != nil {
			t.Errorf("%s: got %v, want none", ask, err)
		}
		for _, name := range names {
			if !strings.Contains(out, "\n  "+name+" ") {
				t.Errorf("%s: got no line about %s", ask, name)
			}
		}
	}
	for _, args := range [][]string{nil, {""}, {"Demo"}, {"--demo"}, {"nonsense", "--help"}} {
		var out, logs strings.Builder
		p := inside(&out, nil)
		p.stderr = &logs
		if err := realMain(t.Context(), args, p); !isUsage(err) || out.Len() > 0 || !strings.Contains(logs.String(), "analyze") {
			t.Errorf("%q: got %v, %q and %q, want a usage error and what there is, on standard error", args, err, out.String(), logs.String())
		}
	}
}

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		out, err := runCommand(word)
		if fields := strings.Fields(out); err != nil || len(fields) != 4 || fields[0] != "floodgate" || !strings.HasPrefix(fields[2], "go1.") {
			t.Errorf("%s: got %q and %v, want floodgate, its version, Go's and the platform", word, out, err)
		}
	}
	defer func(before string) { version = before }(version)
	version = ""
	if got := versionString(); got == "" || strings.ContainsAny(got, " ()\n") {
		t.Errorf("without a linker's word: got %q, want one word", got)
	}
	version = "v1.2.3-rc.1+linker"
	if out, err := runCommand("version"); err != nil || !strings.HasPrefix(out, "floodgate v1.2.3-rc.1+linker go1.") {
		t.Errorf("with it: got %q and %v, want it", out, err)
	}
}

// TestDurationFlag: durations have days and weeks, as in rules files, and no sign.
func TestDurationFlag(t *testing.T) {
	for text, want := range map[string]string{"90s": "1m30s", "12h": "12h", "7d": "7d", "2w": "14d", "1d12h": "36h", "0s": ""} {
		var d durationFlag
		if err := d.Set(text); err != nil || d.String() != want || d.Type() != "duration" {
			t.Errorf("%s: got %q and %v, want %q", text, d.String(), err, want)
		}
	}
	for _, text := range []string{"", "7", "-7d", "1y", "a week"} {
		d := durationFlag(time.Hour)
		if err := d.Set(text); err == nil || d != durationFlag(time.Hour) {
			t.Errorf("%q: got %v and %v, want an error and no change", text, d, err)
		}
	}
}
