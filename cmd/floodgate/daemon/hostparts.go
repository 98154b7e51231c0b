package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiprom"
	"github.com/509da70d/floodgate/analyzer/api/ui"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/ingest/ingestprom"
	"github.com/509da70d/floodgate/analyzer/ingest/tail"
	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/apid"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/atomicfile"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

// layout is the file of a data directory that says what else is in it.
type layout struct {
	Version    int `json:"version"`
	Partitions int `json:"partitions"`
}

const (
	layoutName       = "serve.json"
	layoutVersion    = 1
	servePartitions  = 4 // as topics have by default in Kafka, for a host that moves there
	apiTokenName     = "api-token"
	apiTokensName    = "api-tokens"
	offsetsName      = "offsets.json"
	positionsDirName = "files"
)

// readLayout returns how many partitions the data of a directory has. It makes the file in a new directory.
func readLayout(dir string) (partitions int, err error) {
	path := filepath.Join(dir, layoutName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, clusterNoteName)); err == nil {
			return 0, command.Usagef("--data: got %s, which has the counts of an analyzer that reads Kafka; want a directory of its own for serve", dir)
		}
		data, err = json.Marshal(layout{layoutVersion, servePartitions})
		if err != nil {
			return 0, err
		}
		return servePartitions, atomicfile.Write(path, append(data, '\n'))
	}
	var l layout
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	switch {
	case err != nil:
		return 0, command.Usagef("--data: %s: %w", path, err)
	case l.Version != layoutVersion:
		return 0, command.Usagef("--data: %s: got version %d, want %d: another version of floodgate has written it", path, l.Version, layoutVersion)
	case l.Partitions < 1:
		return 0, command.Usagef("--data: %s: got %d partitions, want 1 or more", path, l.Partitions)
	}
	return l.Partitions, nil
}

// proposal is the rules that a host starts with.
const proposal = `# These rules are a proposal: they count each address, and block nobody. "floodgate rules" checks a change, and serve reads the
# file again when it changes. When you have seen whom they would close, remove "mode: shadow".
version: 1
rules:
  - {name: per-minute, callers: ip, limit: 300, window: 1m, mode: shadow}
  - {name: per-hour, callers: ip, limit: 3000, window: 1h, mode: shadow}
`

// openRules reads the rules. Without a file in the data directory, it writes a proposal there.
func (c *serveConfig) openRules(logger *slog.Logger) (*rules.Set, error) {
	if c.rules == option.LocalRules(c.data) {
		if _, err := os.Stat(c.rules); errors.Is(err, fs.ErrNotExist) {
			if err := atomicfile.Write(c.rules, []byte(proposal)); err != nil {
				return nil, fmt.Errorf("write a proposal of rules: %w", err)
			}
			logger.Warn("wrote a proposal of rules, which block nobody: edit it", "file", c.rules)
		}
	}
	set, err := c.mapping.IDs.Rules(c.rules)
	if err != nil {
		return nil, command.Usagef("--rules: %w", err)
	}
	return set, nil
}

// recordedKinds returns the kinds of the callers that proxies ask about.
func (c *serveConfig) recordedKinds() []string {
	kinds := []string{schemas.KindIP}
	for _, text := range c.callers {
		kind, _, _ := strings.Cut(text, "=")
		kinds = append(kinds, kind)
	}
	return kinds
}

// changeRules makes the analyzer count by other rules.
func (h *host) changeRules(set *rules.Set) {
	h.warnOfKinds(set)
	h.analyzer.SetRules(set)
}

// warnOfKinds warns of rules that count nobody, because no log has callers of their kind.
func (h *host) warnOfKinds(set *rules.Set) {
	kinds := *h.kinds.Load()
	for _, r := range set.Rules {
		if !slices.Contains(kinds, r.Kind) {
			h.logger.Warn("a rule counts nobody: nothing that is read has such callers; see callers in the file of --mapping, or --callers with --record",
				"rule", r.Name, "callers", r.Kind, "read", kinds)
		}
	}
}

// trusted returns the networks of proxies: those of the log, and this host, because only its proxies ask.
func (c *serveConfig) trusted() ([]netip.Prefix, error) {
	networks, err := c.mapping.Trusted()
	return append(networks, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")), err
}

// openPositions opens the positions in files.
func openPositions(dir string, sync func() error) (*tail.Positions, error) {
	p, err := tail.OpenPositions(filepath.Join(dir, positionsDirName), sync)
	if errors.Is(err, tail.ErrPositions) {
		return nil, command.Usagef("--data: %w", err)
	}
	return p, err
}

// openAPI makes the API. Whoever may read the data directory finds a token for it there.
func (h *host) openAPI() error {
	c := h.config
	if c.api == "" {
		return nil
	}
	tokens, err := openTokens(c.data)
	if err != nil {
		return fmt.Errorf("make a token for the API: %w", err)
	}
	ids, err := c.mapping.IDs.Load()
	if err != nil {
		return err
	}
	settings := api.Config{Address: c.api, TokenFile: tokens, IDs: ids, Version: version.This().Version, Logger: h.logger, Page: ui.Handler()}
	if single(c.api) {
		settings.Advertise = c.api
	}
	if c.dashboard {
		h.links = new(api.Links)
		settings.Links = h.links
	}
	apid.Limits(&settings)
	if h.api, err = api.New(settings); err != nil {
		return command.Usagef("--api-listen: %w", err)
	}
	h.life = &apid.Life{
		Server: h.api, Analyzer: h.analyzer, Log: h.log, Names: h.names, Partitions: h.partitions, Key: schemas.DefaultPartitionKey(), Logger: h.logger,
		Board: apid.NewBoard(), Follow: h.follow(),
	}
	return nil
}

// openTokens returns the path of the file of tokens, with one for this host. The token itself is in a file beside it.
func openTokens(dir string) (path string, err error) {
	path, own := filepath.Join(dir, apiTokensName), filepath.Join(dir, apiTokenName)
	_, err = os.Stat(path)
	_, missing := os.Stat(own)
	if err == nil && missing == nil {
		return path, nil
	}
	text, sum := api.NewToken()
	if err := atomicfile.Write(own, []byte(text+"\n")); err != nil {
		return "", err
	}
	return path, atomicfile.Write(path, fmt.Appendf(nil, "host admin %s\n", sum))
}

// openNotify makes the notifier of --notify.
func (h *host) openNotify() error {
	c := h.config
	if c.notify == "" {
		return nil
	}
	settings, err := endpoint.Load(c.notify)
	if err != nil {
		return command.Usagef("--notify: %w", err)
	}
	for _, w := range settings.Warnings {
		h.logger.Warn("settings", "warning", w.Error())
	}
	offsets, err := solo.OpenOffsets(solo.OffsetsConfig{Path: filepath.Join(c.data, offsetsName), Partitions: h.partitions, Sync: h.sync})
	if err != nil {
		return command.Usagef("--data: %w", err)
	}
	var events kafkaio.Fetcher = h.log
	if c.fromStart {
		events = presentEvents{h.log}
	}
	h.webhooks = notifyprom.New(time.Now)
	h.notifier = notify.New(notify.Config{
		Fetcher: events, Join: func(group string) (notify.Membership, error) { return offsets.Join(group), nil },
		Topic: h.names.Events, Group: "floodgate-notify", Path: c.notify, Logger: h.logger, Observe: h.webhooks.Observe,
	}, settings)
	h.webhooks.Show(h.notifier.Stats)
	return nil
}

// openServers listens at all addresses. The error names each flag whose address cannot be had.
func (h *host) openServers() (err error) {
	c := h.config
	h.asked = httpd.New(httpd.Config{WriteTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: maxQuestionBytes, Handler: h.side.Handler()})
	errs := []error{h.asked.Listen("listen", c.listen, h.logger)}
	if c.metrics != "" {
		h.metrics = httpd.New(httpd.Config{Metrics: []prometheus.Collector{version.Metric()}})
		errs = append(errs, h.metrics.Listen("metrics-listen", c.metrics, h.logger))
	}
	if h.api != nil {
		h.apiBound, err = httpd.Listen("api-listen", c.api)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, h.bouncers.open())...); err != nil {
		return command.Usage(err)
	}
	return nil
}

// report makes /metrics show what all parts count, and /readyz say what they wait for.
func (h *host) report() {
	reported := []prometheus.Collector{
		gateprom.New(gateprom.Options{Set: h.set, Recorder: h.rec, Link: h.link}), sidecarprom.New(h.side),
		analyzerprom.New(h.analyzer.Stats), analyzerprom.NewRules(h.analyzer.RulesStatus), analyzerprom.NewDisk(h.config.data), analyzerprom.NewLog(h.keeper.bytes.Load, func() bool { return h.keeper.waits() != "" }),
	}
	if h.intake != nil {
		reported = append(reported, ingestprom.New(h.feedStats, h.intake.lostLogs.Load, h.intake.undecided.Load))
	}
	if h.bouncers != nil {
		reported = append(reported, sidecarprom.NewBouncer(h.bouncers.server))
	}
	if h.api != nil {
		reported = append(reported, apid.PartitionRules(h.life.Board, h.partitions), apiprom.New(h.api.Stats))
	}
	if h.notifier != nil {
		reported = append(reported, h.webhooks)
	}
	h.metrics.Report(h.waits, reported...)
}

// waits returns what serve waits for, or "".
func (h *host) waits(now time.Time) string {
	switch why := h.keeper.waits(); {
	case why != "":
		return why
	case !h.analyzer.Ready(now):
		return "see floodgate_partition_state"
	case !ready(h.link):
		return "waiting for the first decisions; all gates are open"
	}
	return ""
}

// feedStats returns what was read.
func (h *host) feedStats() feed.Stats {
	if f := h.feed.Load(); f != nil {
		return f.Stats()
	}
	return feed.Stats{}
}
