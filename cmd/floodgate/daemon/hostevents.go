package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

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

// pastEvent is how old an event may be when it is written, if endpoints are to be told of it.
const pastEvent = 10 * time.Minute

// presentEvents reads the topic of events, without those that were past when they were written: --from-start reads lines of long ago.
type presentEvents struct{ kafkaio.Fetcher }

// Fetch implements kafkaio.Fetcher.
func (p presentEvents) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	b, err := p.Fetcher.Fetch(ctx, r)
	b.Records = slices.DeleteFunc(b.Records, func(record kafkaio.Record) bool {
		e, err := event.Decode(record.Value)
		return err == nil && e.Time.Add(pastEvent).UnixNano() < record.Time
	})
	return b, err
}
