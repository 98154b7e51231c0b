package kafkalink

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bits flip in flight, anywhere in what the link and its broker tell each other. No gate closes but those
// that were decided, every one of those does, and the log holds no caller that never asked.
func TestBitsThatFlipInFlight(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		const rounds = 400
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newServer(t)
		stop := s.run()
		if err := s.link.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		decide := s.owners()
		for i := range rounds {
			s.network.flipSoon(1 + rng.IntN(600))
			guilty := fmt.Sprint("guilty-", i)
			s.ask(guilty)
			decide(guilty)
			pass(time.Duration(rng.IntN(200)) * time.Millisecond)
			s.ask("innocent")
			s.conserve()
		}
		s.network.flipSoon(0)
		pass(time.Minute)
		for i := range rounds {
			if id := fmt.Sprint("guilty-", i); !s.keys.Closed(id) {
				t.Errorf("%s: got open, want closed: its decision was whole in the log", id)
			}
		}
		if st := s.set.Status(); s.keys.Closed("innocent") || st.Closed != rounds {
			t.Errorf("got %d callers closed, want the %d that were decided", st.Closed, rounds)
		}
		stop()
		st := s.conserve()
		n := s.logged(func(e *schemas.Entry) {
			if e.Kind == "ip" && strings.HasPrefix(e.ID, "10.0.") || e.ID == "innocent" || strings.HasPrefix(e.ID, "guilty-") {
				return
			}
			t.Errorf("got %v in the log, who never asked", e.Caller())
		})
		if n < st.Acked || n > st.Acked+st.Unknown {
			t.Errorf("got %d requests in the log, want the %d acknowledged and at most %d unknown", n, st.Acked, st.Unknown)
		}
		if flips := s.network.flips(); flips < rounds/2 {
			t.Errorf("got %d bits flipped, want most of %d: the test did not try", flips, rounds)
		}
		t.Logf("%d bits flipped; %+v; %+v", s.network.flips(), st, s.link.Stats().Refused)
		s.close()
	})
}

// owners claims all partitions past the weather, and returns how to close a key for an hour.
func (s *server) owners() (decide func(id string)) {
	s.t.Helper()
	var seqs [awayPartitions]uint64
	write := func(p int, r pb.Record) {
		s.t.Helper()
		if _, err := s.direct.Produce(s.t.Context(), "floodgate.decisions", p, kafkaio.Message{
			Time: time.Now().UnixNano(), Value: encode(r),
		}); err != nil {
			s.t.Fatal(err)
		}
	}
	for p := range seqs {
		write(p, pb.Record{Claim: &schemas.Claim{Partition: int32(p), Epoch: 1, Nonce: 1}})
	}
	return func(id string) {
		p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), awayPartitions)
		seqs[p]++
		now := time.Now()
		write(p, pb.Record{Decision: &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, Partition: int32(p),
			Epoch: 1, Seq: seqs[p], CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
		}})
	}
}
