package command

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// inside returns a process that exists only in the test: its output, and an environment.
func inside(out io.Writer, env map[string]string) Process {
	return Process{Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Lookup: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}
}

func TestFlagsGoBeforeTheEnvironmentAndThatBeforeDefaults(t *testing.T) {
	type values struct {
		brokers []string
		wait    time.Duration
		max     int
		loud    bool
		out     Output
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
				v.brokers, v.max, v.loud, v.out.JSON = []string{"a:1", "b:2"}, 3, true, true
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
		{name: "wrong variables are all said", env: map[string]string{"FLOODGATE_WAIT": "soon", "FLOODGATE_OUTPUT": "xml"}, err: `FLOODGATE_OUTPUT: --output: got "xml"`},
		{name: "the first as well", env: map[string]string{"FLOODGATE_WAIT": "soon", "FLOODGATE_OUTPUT": "xml"}, err: `FLOODGATE_WAIT: --wait: got "soon"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got values
			cmd := &cobra.Command{Use: "try [flags]", RunE: func(*cobra.Command, []string) error { return nil }}
			flags := cmd.Flags()
			flags.StringSliceVar(&got.brokers, "brokers", defaults.brokers, "")
			flags.DurationVar(&got.wait, "wait", defaults.wait, "")
			flags.IntVar(&got.max, "max-rows", defaults.max, "")
			flags.BoolVar(&got.loud, "loud", defaults.loud, "")
			got.out.Add(cmd)
			var out strings.Builder
			err := New(inside(&out, test.env), Group{Commands: []*cobra.Command{cmd}}).Run(t.Context(), append([]string{"try"}, test.args...))
			if out.Len() > 0 {
				t.Errorf("got output %q, want none: the error says it", out.String())
			}
			if test.err != "" {
				if !IsUsage(err) || !strings.Contains(err.Error(), test.err) {
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

// TestUnknownVariablesAreWarnedOf: a misspelt one is a flag that silently has its default. What belongs to another
// subcommand, to Kubernetes or to somebody else is no mistake.
func TestUnknownVariablesAreWarnedOf(t *testing.T) {
	for entry, want := range map[string]string{
		"FLOODGATE_BROKRES=a:1":                 "FLOODGATE_BROKRES is in the environment, and there is no such flag, did you mean FLOODGATE_BROKERS?",
		"FLOODGATE_max_rows=1":                  "FLOODGATE_max_rows is in the environment, and there is no such flag, did you mean FLOODGATE_MAX_ROWS?",
		"FLOODGATE_KAFKA_BOOTSTRAP=a:1":         "FLOODGATE_KAFKA_BOOTSTRAP is in the environment, and there is no such flag",
		"FLOODGATE_=1":                          "FLOODGATE_ is in the environment, and there is no such flag",
		"FLOODGATE_\x1b[2J=1":                   `FLOODGATE_\x1b[2J is in the environment, and there is no such flag`,
		"FLOODGATE_MAX_ROWS=":                   "",
		"FLOODGATE_PARTITION_KEY_FILE=f":        "",
		"FLOODGATE_SERVICE_HOST=10.0.0.1":       "", // Kubernetes
		"FLOODGATE_METRICS_SERVICE_PORT=9090":   "",
		"FLOODGATE_PORT=tcp://10.0.0.1:9090":    "",
		"FLOODGATE_PORT_9090_TCP_ADDR=10.0.0.1": "",
		"FLOODGATES=1":                          "",
		"HOME=/root":                            "",
		"no equals sign":                        "",
	} {
		var out, logs strings.Builder
		p := inside(&out, nil)
		p.Stderr, p.Environ = &logs, func() []string { return []string{"PATH=/bin", entry} }
		cmd := &cobra.Command{Use: "try", RunE: func(*cobra.Command, []string) error { _, err := fmt.Fprint(p.Stdout, "tried"); return err }}
		for _, flag := range []string{"brokers", "max-rows", "partition-key-file"} {
			cmd.Flags().String(flag, "", "")
		}
		if err := New(p, Group{Commands: []*cobra.Command{cmd}}).Run(t.Context(), []string{"try"}); err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		if want != "" {
			want = "floodgate: warning: " + want + "\n"
		}
		if logs.String() != want || out.String() != "tried" {
			t.Errorf("%q\ngot  %q\nwant %q", entry, logs.String(), want)
		}
	}
}

// TestEachFlagIsAVariable: each flag is found again by its variable, and no variable of somebody else is taken for one.
func TestEachFlagIsAVariable(t *testing.T) {
	for _, name := range []string{"data", "api-listen", "tls-ca", "hash-secret-file"} {
		if v := variable(name); flagOf(v) != name || foreignVariable(v) {
			t.Errorf("--%s: got variable %s, which is of --%s, foreign %t", name, v, flagOf(v), foreignVariable(v))
		}
	}
}
