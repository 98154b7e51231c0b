package snapshot

import (
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// stateLog is a state/0 that is written by hand.
type stateLog struct {
	t *testing.T
	*kafkaiotest.Kafka
}

func newStateLog(t *testing.T) stateLog {
	t.Helper()
	k := kafkaiotest.New()
	k.Create(1, "state")
	k.SetMaxRecords(7) // so that there are several batches
	return stateLog{t, k}
}

func (l stateLog) reader() *Reader { return NewReader(l.Kafka, "state", 0, kafkaio.Always, nil) }

func (l stateLog) raw(value []byte) int64 {
	l.t.Helper()
	return l.Append("state", 0, kafkaio.Message{Value: value})
}

func (l stateLog) add(r *pb.StateRecord) int64 {
	l.t.Helper()
	value, err := pb.AppendState(nil, r)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.raw(value)
}

func (l stateLog) begin(epoch, cycle uint64, offset int64, part, parts uint32, senders ...byte) int64 {
	l.t.Helper()
	b := &pb.StateBegin{Epoch: epoch, Cycle: cycle, Offset: offset, Part: part, Parts: parts}
	for _, s := range senders {
		b.Dedupe = append(b.Dedupe, encodeSender(&fold.Sender{ID: schemas.ProducerID{s}, Seq: 1}))
	}
	return l.add(&pb.StateRecord{Record: &pb.StateRecord_Begin{Begin: b}})
}

func (l stateLog) row(epoch, cycle uint64, next int64, key string) {
	l.t.Helper()
	l.add(&pb.StateRecord{Record: &pb.StateRecord_Row{Row: &pb.StateRow{Epoch: epoch, Cycle: cycle, Next: next, Key: []byte(key), Value: []byte{1}}}})
}

func (l stateLog) end(epoch, cycle uint64, rows, from int64) {
	l.t.Helper()
	l.add(endRecord(epoch, cycle, rows, from, kafkaio.Tail{Offset: 7, CRC: 8}))
}

// rows returns the snapshot's rows as a reader gets them.
func (l stateLog) rows(s *Snapshot) (rows []string) {
	l.t.Helper()
	if err := l.reader().EachRow(l.t.Context(), s, func(row *pb.StateRow) error {
		rows = append(rows, fmt.Sprintf("%s@%d", row.GetKey(), row.GetNext()))
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return rows
}
