package api

import (
	"net/http"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// getStatus says what all analyzers do, as their heartbeats say, and what this one does.
func (s *Server) getStatus(c *call) error {
	b, now := c.backend, c.now()
	board, in := b.Board.Status(), b.Analyzer.RulesStatus(now)
	v := apiv1.Status{
		Now: now.UTC(), Version: s.config.Version, Who: c.identity.name, Role: c.identity.role.String(), Tokens: s.needsToken(), API: s.config.Advertise,
		Board:   apiv1.BoardStatus{Ready: board.Ready, Decisions: board.Decisions, Incomplete: board.Incomplete},
		Control: apiv1.ControlStatus{Ready: b.Records.Ready(), Next: b.Records.Next()},
		Kafka:   kafkaStatus(b.Analyzer.Outage(now)),
		Brakes:  c.brakes(),
		Rules:   apiv1.RulesStatus{ID: hexID(in.Set.ID()), Count: len(in.Set.Rules), Modes: []apiv1.Mode{}}, RulesAgree: true,
		Partitions: make([]apiv1.PartitionStatus, 0, b.Partitions),
	}
	if in.Refused != nil {
		if v.Rules.Refused = in.Refused.Error(); c.redactor.on {
			v.Rules.Refused = "the newest version of the file cannot be used: the log says why" // the error may repeat an id of an override
		}
	}
	for _, r := range in.Set.Rules {
		mode, _ := effective(r.Name, r.Mode.String(), v.Brakes)
		v.Rules.Modes = append(v.Rules.Modes, apiv1.Mode{Rule: r.Name, File: r.Mode.String(), Effective: mode})
	}
	if s.tokens != nil {
		v.TokensBad = c.redactor.text(s.tokens.refused(now)) // the error has the path of the file
	}
	for _, u := range in.Unused {
		u.Sample = c.redactor.text(u.Sample)
		v.Rules.Unused = append(v.Rules.Unused, u.String())
	}
	rulesID, owners := "", b.Analyzer.Stats()
	for p := range b.Partitions {
		view := c.partitionStatus(p, owners)
		if view.RulesID != "" && !view.Stale {
			if rulesID != "" && rulesID != view.RulesID {
				v.RulesAgree = false
			}
			rulesID = view.RulesID
		}
		v.Partitions = append(v.Partitions, view)
	}
	return c.answer(http.StatusOK, v)
}

func kafkaStatus(o kafkaio.Outage, away bool) apiv1.KafkaStatus {
	if !away {
		return apiv1.KafkaStatus{Reachable: true}
	}
	return apiv1.KafkaStatus{Since: o.Since.UTC(), Brokers: o.Brokers, Error: o.Err.Error()}
}

// partitionStatus returns one partition, as its heartbeats and this analyzer say.
func (c *call) partitionStatus(p int, owners []analyzer.OwnerStats) apiv1.PartitionStatus {
	v := apiv1.PartitionStatus{PartitionView: c.partitionView(p, owners)}
	if h, ok := c.backend.Board.Heartbeat(p); ok {
		v.API, v.Control, v.RulesFrom = h.API, h.Control, h.RulesFrom
	}
	for i := range owners {
		o := &owners[i]
		if o.Partition == p && o.State != analyzer.Idle {
			v.Here, v.Closed, v.Counted = true, o.Publish.InForce, o.Fold.Requests
		}
	}
	return v
}

// partitionView returns how far a partition is. If the owner is here, the state is the owner's. Heartbeats have no state: an owner that
// sends them runs.
func (c *call) partitionView(p int, owners []analyzer.OwnerStats) apiv1.PartitionView {
	v := apiv1.PartitionView{Partition: p, State: "none", Stale: true}
	if h, ok := c.backend.Board.Heartbeat(p); ok {
		v = viewOf(&h, !c.backend.Board.Heard(p, c.now()))
	}
	for i := range owners {
		o := &owners[i]
		if o.Partition == p && o.State != analyzer.Idle {
			v.State = o.State.String()
		}
	}
	return v
}

func viewOf(h *schemas.Heartbeat, stale bool) apiv1.PartitionView {
	v := apiv1.PartitionView{
		Partition: int(h.Partition), State: analyzer.Running.String(), Epoch: h.Epoch, Offset: h.Watermark, LogTime: timeOf(h.LogTime), Beat: timeOf(h.Time),
		Stale: stale, LagNS: h.Lag, RulesID: hexID(h.RulesID),
	}
	if stale {
		v.State = "silent"
	}
	if v.Backlog = max(0, h.End-h.Watermark); v.Backlog > 0 && h.LogTime > 0 {
		v.BehindNS = max(0, h.Time-h.LogTime)
	}
	return v
}
