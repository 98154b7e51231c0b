package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// examples returns a command line that works for each subcommand, by its name.
func examples() map[string]string {
	return map[string]string{
		"demo":        "floodgate demo --duration 30s --noisy 3",
		"analyze":     "floodgate analyze --brokers kafka:9092 --rules rules.yaml --data /var/lib/floodgate",
		"sidecar":     "floodgate sidecar --brokers kafka:9092 --callers key=X-Api-Key",
		"ingest":      "floodgate ingest --brokers kafka:9092 --file /var/log/nginx/access.log --data /var/lib/floodgate-ingest",
		"notify":      "floodgate notify --brokers kafka:9092 --config /etc/floodgate/notify.yaml",
		"formats":     "floodgate formats",
		"rejects":     "floodgate rejects --brokers kafka:9092 --last 20",
		"replay":      "floodgate replay --rules rules.yaml /var/log/nginx/access.log",
		"simulate":    "floodgate simulate --scenario A,B-20 --lag 50ms --svg simulate.svg",
		"rules":       "floodgate rules check rules.yaml",
		"status":      "floodgate status --api https://analyzer.example:9096 --token-file token",
		"top":         "floodgate top --sort blocked",
		"callers":     "floodgate callers --sort share --min-share 0.8",
		"explain":     "floodgate explain key:noisy-1",
		"decisions":   "floodgate decisions --watch",
		"try":         "floodgate try ip:203.0.113.9 --resource \"GET /search\" --count 5",
		"close":       "floodgate close key:noisy-1 --for 2h --reason \"ticket 4711\"",
		"open":        "floodgate open key:noisy-1 --for 1m --reason \"ticket 4711\"",
		"limit":       "floodgate limit key:noisy-1 per-key 500 --for 12h --reason \"sale until tonight\"",
		"reset":       "floodgate reset key:noisy-1 --reason \"their bug is mended\"",
		"mode":        "floodgate mode shadow per-ip --for 10m --reason trial",
		"undo":        "floodgate undo 00112233445566778899aabbccddeeff --reason \"it was another caller\"",
		"actions":     "floodgate actions --state in_force",
		"token":       "floodgate token alice operate",
		"completion":  "floodgate completion bash",
		"topics":      "floodgate topics --brokers kafka:9092 --partition-key-file /etc/floodgate/partition.key --create",
		"audit":       "floodgate audit --brokers kafka:9092 --rules rules.yaml --data /var/lib/floodgate",
		"repartition": "floodgate repartition --brokers kafka:9092 --to-requests floodgate.requests.2",
		"store":       "floodgate store --data /var/lib/floodgate --rules rules.yaml --caller key:k9",
		"broker":      "floodgate broker --listen 127.0.0.1:9092 --data /tmp/kafka",
		"probe":       "floodgate probe http://127.0.0.1:9090/readyz",
		"version":     "floodgate version --output json",
	}
}

// kafkaGroup marks the flags that say how to reach Kafka: help prints them last, under a heading.
const kafkaGroup = "kafka"

func inKafkaGroup(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Annotations = map[string][]string{kafkaGroup: nil}
	}
}

// printHelp prints the usage of a subcommand, an example, and its flags: those of Kafka last.
func printHelp(w io.Writer, flags *pflag.FlagSet) {
	fmt.Fprintf(w, "Usage: floodgate %s\n\n", flags.Name())
	if example := examples()[strings.Fields(flags.Name())[0]]; example != "" {
		fmt.Fprintf(w, "Example:\n  %s\n", example)
	}
	sorted := pflag.NewFlagSet("", pflag.ContinueOnError)
	sorted.SortFlags = false
	var kafka []*pflag.Flag
	flags.VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[kafkaGroup]; ok {
			kafka = append(kafka, f)
			return
		}
		sorted.AddFlag(f)
	})
	if sorted.HasFlags() {
		fmt.Fprint(w, "\nFlags:\n")
	}
	for _, f := range kafka {
		sorted.AddFlag(f)
	}
	text := sorted.FlagUsages() // of all flags at once, so that they share their columns
	if len(kafka) > 0 {
		own, rest, _ := strings.Cut("\n"+text, "\n      --"+kafka[0].Name+" ")
		if own != "" {
			own = own[1:] + "\n"
		}
		text = own + "\nKafka:\n      --" + kafka[0].Name + " " + rest
	}
	fmt.Fprint(w, text)
}

// meantFlag returns which flag was probably meant, if err is about one that there is not.
func meantFlag(flags *pflag.FlagSet, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name = short // one dash in place of two
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name, _, _ = strings.Cut(name, "=")
	if meant := document.Closest(name, names); meant != "" {
		return " (did you mean --" + meant + "?)"
	}
	return ""
}

// variablePrefix begins the environment variable of each flag.
const variablePrefix = "FLOODGATE_"

// warnOfVariables warns of environment variables that are of no flag of any subcommand. They change nothing, and are no
// error: several subcommands may share one environment.
func warnOfVariables(ctx context.Context, p process) {
	if p.environ == nil || p.describe != nil {
		return
	}
	var known []string
	for _, entry := range p.environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || foreignVariable(name) {
			continue
		}
		if known == nil {
			known = allFlags(ctx, p)
		}
		flag := flagOf(name)
		if name == variable(flag) && slices.Contains(known, flag) {
			continue
		}
		hint := ""
		if meant := document.Closest(flag, known); meant != "" {
			hint = ", did you mean " + variable(meant) + "?"
		}
		fmt.Fprintf(p.stderr, "floodgate: warning: %s is in the environment, and there is no such flag%s\n", printable.Of(name), hint)
	}
}

// foreignVariable reports whether something else than a person sets a variable: Kubernetes, for a service that is named
// floodgate, or the tests of this repository.
func foreignVariable(name string) bool {
	rest := strings.TrimPrefix(name, variablePrefix)
	switch rest {
	case "PORT", "LONG", "KAFKA", "LOGS", "SIMULATIONS", "FAILPOINT":
		return true
	}
	return strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "TEST_") || strings.Contains(rest, "SERVICE_HOST") || strings.Contains(rest, "SERVICE_PORT")
}

// allFlags returns the names of the flags of all subcommands.
func allFlags(ctx context.Context, p process) []string {
	var names []string
	p.describe = func(flags *pflag.FlagSet) {
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	}
	for _, c := range subcommands() {
		_ = c.run(ctx, p, nil) // it describes itself, and stops there
	}
	return names
}

// flagOf returns the flag of an environment variable: see variable.
func flagOf(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, variablePrefix), "_", "-"))
}
