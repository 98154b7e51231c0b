package snapshot

import (
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// Piece is a part of a snapshot. Those of Begin, Rows and End that are set are written in this order.
type Piece struct {
	Begin   *pb.StateBegin // begins a cycle; without its senders
	Senders []fold.Sender
	Rows    []rows.Change
	Next    int64        // the offset of requests[p] that the rows are as of, …
	Placed  int64        // … and the offset of the control topic behind the last place
	End     bool         // ends the cycle
	Tail    kafkaio.Tail // with End: the last record before Next
}

// maxSenders bounds the senders of one begin, so that they take less than 256 KiB. The text of the rules comes in addition.
const maxSenders = 4096

// records returns the records of a piece, except its end.
func (p *Piece) records(epoch, cycle uint64) []*pb.StateRecord {
	var list []*pb.StateRecord
	if p.Begin != nil {
		parts := max(1, (len(p.Senders)+maxSenders-1)/maxSenders)
		for part := range parts {
			begin := &pb.StateBegin{
				Epoch: epoch, Cycle: cycle, Part: uint32(part), Parts: uint32(parts), // few
				Offset: p.Begin.GetOffset(), LogTime: p.Begin.GetLogTime(), TailOffset: p.Begin.GetTailOffset(), TailCrc: p.Begin.GetTailCrc(),
				RulesId: p.Begin.GetRulesId(), RulesFrom: p.Begin.GetRulesFrom(), Placed: p.Begin.GetPlaced(), PlacedEpoch: p.Begin.GetPlacedEpoch(),
				Format: rows.Format, Since: rows.Since,
			}
			if part == 0 {
				begin.Rules = p.Begin.GetRules()
			}
			for i := part * maxSenders; i < min(len(p.Senders), (part+1)*maxSenders); i++ {
				begin.Dedupe = append(begin.Dedupe, encodeSender(&p.Senders[i]))
			}
			list = append(list, &pb.StateRecord{Record: &pb.StateRecord_Begin{Begin: begin}})
		}
	}
	for _, row := range p.Rows {
		list = append(list, &pb.StateRecord{Record: &pb.StateRecord_Row{Row: &pb.StateRow{
			Epoch: epoch, Cycle: cycle, Next: p.Next, Placed: p.Placed, Key: row.Key, Value: row.Value,
		}}})
	}
	return list
}

func endRecord(epoch, cycle uint64, rows, from int64, tail kafkaio.Tail) *pb.StateRecord {
	return &pb.StateRecord{Record: &pb.StateRecord_End{End: &pb.StateEnd{
		Epoch: epoch, Cycle: cycle, Rows: rows, From: from, TailOffset: tail.Offset, TailCrc: tail.CRC,
	}}}
}

// encodeSender turns a sender into a row of a begin; decodeSender undoes it.
func encodeSender(s *fold.Sender) *pb.DedupeRow {
	row := &pb.DedupeRow{Producer: s.ID[:], Last: s.Last}
	if s.Source {
		row.Seen = &pb.DedupeRow_Lines{Lines: &pb.SeenLines{Offset: s.Offset}}
	} else {
		row.Seen = &pb.DedupeRow_Frames{Frames: &pb.SeenFrames{Seq: s.Seq, Below: s.Below}}
	}
	return row
}

func decodeSender(row *pb.DedupeRow) fold.Sender {
	s := fold.Sender{Source: row.GetLines() != nil, Last: row.GetLast()}
	copy(s.ID[:], row.GetProducer()) // 16 bytes: DecodeState refuses others
	if s.Source {
		s.Offset = row.GetLines().GetOffset()
	} else {
		s.Seq, s.Below = row.GetFrames().GetSeq(), row.GetFrames().GetBelow()
	}
	return s
}

// batch is the messages of one request.
type batch struct {
	messages []kafkaio.Message
	size     int // bytes
}

func (b *batch) add(r *pb.StateRecord) error {
	value, err := pb.AppendState(nil, r)
	if err != nil {
		return fmt.Errorf("encode snapshot: %w", err)
	}
	b.messages = append(b.messages, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	b.size += len(value)
	return nil
}
