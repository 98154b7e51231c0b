package daemon

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiprom"
	"github.com/509da70d/floodgate/analyzer/api/ui"
	"github.com/509da70d/floodgate/analyzer/ingest/ingestprom"
	"github.com/509da70d/floodgate/cmd/floodgate/apid"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
	"github.com/509da70d/floodgate/schemas"
)

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
		Board: h.board,
	}
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
	if err := errors.Join(append(errs, h.gates.open(), h.bouncers.open())...); err != nil {
		return command.Usage(err)
	}
	return nil
}

// report makes /metrics show what all parts count, and /readyz say what they wait for.
func (h *host) report() {
	reported := []prometheus.Collector{
		gateprom.New(gateprom.Options{Set: h.set, Recorder: h.rec, Link: h.link}), sidecarprom.New(h.side),
		analyzerprom.New(h.analyzer.Stats), analyzerprom.NewRules(h.analyzer.RulesStatus), analyzerprom.NewDisk(h.config.data),
		analyzerprom.NewLog(h.keeper.bytes.Load, h.keeper.isFull),
	}
	if h.intake != nil {
		reported = append(reported, ingestprom.New(h.feedStats, h.intake.lostLogs.Load, h.intake.undecided.Load))
	}
	reported = append(reported, h.gates.metrics()...)
	if h.bouncers != nil {
		reported = append(reported, sidecarprom.NewBouncer(h.bouncers.server))
	}
	if h.haproxy != nil {
		reported = append(reported, sidecarprom.NewHAProxy(h.haproxy))
	}
	if h.api != nil {
		reported = append(reported, apid.PartitionRules(h.life.Board, h.partitions), apiprom.New(h.api.Stats))
	}
	if h.notifier != nil {
		reported = append(reported, h.webhooks)
	}
	h.metrics.Report(h.waits, reported...)
}
