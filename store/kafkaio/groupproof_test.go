package kafkaio

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// collected is the proofs that a group has passed on.
type collected struct {
	mu   sync.Mutex
	sent []time.Time // guarded by mu
}

func (c *collected) add(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, sent)
}

// after returns how many proofs were asked for after a time.
func (c *collected) after(t time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.sent {
		if s.After(t) {
			n++
		}
	}
	return n
}

// await waits until n proofs were asked for after now.
func (c *collected) await(t *testing.T, what string, n int) {
	t.Helper()
	now := time.Now()
	for deadline := now.Add(20 * time.Second); c.after(now) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: got %d proofs within 20s, want %d", what, c.after(now), n)
		}
	}
}

// answerOnce makes the coordinator answer the next n requests of a kind with an error.
func answerOnce(b *embedded.Broker, key kmsg.Key, n int, answer func(kmsg.Request) kmsg.Response) *sync.WaitGroup {
	var done sync.WaitGroup
	done.Add(n)
	var mu sync.Mutex
	b.Cluster().ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		b.Cluster().KeepControl()
		if n == 0 {
			return nil, nil, false
		}
		n--
		done.Done()
		return answer(r), nil, true
	})
	return &done
}

// TestErrorsThatAreNormalInAGroupAreNotReturned: the coordinator answers a join or a sync with what it says while others come and
// go, or while it moves. Next returns the generation, and no error.
func TestErrorsThatAreNormalInAGroupAreNotReturned(t *testing.T) {
	testenv.Long(t)
	for name, code := range map[string]kafka.Error{
		"rebalance in progress": kafka.RebalanceInProgress, "illegal generation": kafka.IllegalGeneration, "unknown member": kafka.UnknownMemberId,
		"not the coordinator": kafka.NotCoordinatorForGroup, "loading": kafka.GroupLoadInProgress, "not available": kafka.GroupCoordinatorNotAvailable,
	} {
		for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup} {
			t.Run(key.Name()+": "+name, func(t *testing.T) {
				b, c := groupCluster(t, 2)
				answered := answerOnce(b, key, 3, func(r kmsg.Request) kmsg.Response {
					resp := r.ResponseKind()
					switch resp := resp.(type) {
					case *kmsg.JoinGroupResponse:
						resp.ErrorCode = int16(code)
					case *kmsg.SyncGroupResponse:
						resp.ErrorCode = int16(code)
					}
					return resp
				})
				config := quick(c)
				config.JoinBackoff = time.Hour // it must not be waited for
				g, err := NewGroup(config)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				gen, err := g.Next(ctx)
				if err != nil || !slices.Equal(gen.Partitions, []int{0, 1}) {
					t.Fatalf("got %+v, %v; want both partitions and no error", gen, err)
				}
				answered.Wait()
			})
		}
	}
}

// What stays wrong is reported, and so is what goes on for too long.
func TestAnErrorThatPreventsJoiningIsReported(t *testing.T) {
	t.Parallel()
	for _, code := range []kafka.Error{kafka.RebalanceInProgress, kafka.GroupAuthorizationFailed} {
		b, c := groupCluster(t, 1)
		answerOnce(b, kmsg.SyncGroup, 2*maxRejoins, func(r kmsg.Request) kmsg.Response {
			resp, _ := r.ResponseKind().(*kmsg.SyncGroupResponse)
			resp.ErrorCode = int16(code)
			return resp
		})
		g, err := NewGroup(quick(c))
		if err != nil {
			t.Fatal(err)
		}
		if gen, err := g.Next(t.Context()); !errors.Is(err, code) {
			t.Errorf("got %+v, %v; want %v", gen, err, code)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestALeaseIsProvedWhileTheGroupWaits: one member waits to join, and another holds everybody up. The first has proofs all the while,
// and none from the moment that there is a newer generation until Next has returned it.
func TestALeaseIsProvedWhileTheGroupWaits(t *testing.T) {
	t.Parallel()
	_, c := groupCluster(t, 2)
	config := quick(c)
	config.SessionTimeout, config.RebalanceTimeout = 20*time.Second, 20*time.Second
	var proofs collected
	a, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.OnProof(proofs.add)
	first := nextGeneration(t, a)
	proofs.await(t, "while nothing happens", 3)
	b, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	<-first.Done() // b waits for a
	proofs.await(t, "while a may still work", 3)
	gen := nextGeneration(t, a)
	held := nextGeneration(t, b)
	third, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	<-gen.Done()
	<-held.Done() // and is not released: everybody waits for b
	joined := make(chan *Generation, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { joined <- nextGeneration(t, a) })
	proofs.await(t, "while a waits for b to join", 10)
	select {
	case gen := <-joined:
		t.Fatalf("got %+v before b had joined", gen)
	default:
	}
	wg.Go(func() { nextGeneration(t, b) })
	wg.Go(func() { nextGeneration(t, third) })
	gen = <-joined
	if gen.ID != held.ID+1 {
		t.Errorf("got generation %d, want the one after %d", gen.ID, held.ID)
	}
}

// TestALeaseIsProvedWhileTheLeaderIsSilent: the leader has joined and says nothing. Nobody has been given partitions yet, which
// the coordinator proves to a member that waits. Once the sync has failed there are no more proofs. It commits what is committed: an
// older offset would be stored if the leader speaks meanwhile.
func TestALeaseIsProvedWhileTheLeaderIsSilent(t *testing.T) {
	testenv.Long(t)
	b, c := groupCluster(t, 2)
	var proofs collected
	config := quick(c)
	config.SessionTimeout, config.RebalanceTimeout = 3*time.Second, 3*time.Second
	a, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.OnProof(proofs.add)
	first := nextGeneration(t, a)
	if err := first.Commit(map[int]int64{0: 7, 1: 7}); err != nil {
		t.Fatal(err)
	}
	b.Cluster().ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		if req, ok := r.(*kmsg.OffsetCommitRequest); ok && req.Topics[0].Partitions[0].Offset != 7 {
			t.Errorf("got a commit of offset %d, want 7: that of before", req.Topics[0].Partitions[0].Offset)
		}
		return nil, nil, false
	})
	// The leader's sync is lost on its way: the broker never hears of it.
	var hold sync.Mutex
	syncs := 0
	b.Cluster().ControlKey(int16(kmsg.SyncGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		hold.Lock()
		defer hold.Unlock()
		req, _ := r.(*kmsg.SyncGroupRequest)
		syncs++
		return nil, nil, len(req.GroupAssignment) > 0 && syncs <= 2 // handled, by no answer at all
	})
	other, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	<-first.Done()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { nextGeneration(t, other) })
	next := make(chan *Generation, 1)
	wg.Go(func() { next <- nextGeneration(t, a) })
	if _, err := b.Cluster().WaitGroupInfo(t.Context(), "g", func(g *kfake.GroupInfo) bool { return g.State == "CompletingRebalance" }); err != nil {
		t.Fatal(err)
	}
	proofs.await(t, "while the leader says nothing", 5)
	if gen := <-next; gen.ID <= first.ID {
		t.Errorf("got generation %d after %d", gen.ID, first.ID)
	}
}

// TestAKilledMemberIsTakenOutByTheNextProcess: a member ends without a word, as by kill -9, and its session is long. Another
// with the same file owns everything at once.
func TestAKilledMemberIsTakenOutByTheNextProcess(t *testing.T) {
	_, c := groupCluster(t, 2)
	file := filepath.Join(t.TempDir(), "data", "member")
	config := quick(c)
	config.SessionTimeout, config.RebalanceTimeout, config.MemberFile = time.Minute, time.Minute, file
	dead, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	gen := nextGeneration(t, dead)
	if second, former, err := openMemberFile(file); second != nil || former != "" || err != nil {
		t.Errorf("while its process lives: got %v, %q, %v; want the file locked", second, former, err)
	}
	dead.stop() // what kill -9 leaves: no word to the coordinator, the file as it is, and no lock on it
	dead.wg.Wait()
	dead.coordinator.close()
	if err := dead.file.file.Close(); err != nil {
		t.Fatal(err)
	}
	if id, err := os.ReadFile(file); err != nil || string(id) != gen.Member {
		t.Fatalf("got %q, %v in the file, want %q", id, err, gen.Member)
	}
	next, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	heir, err := next.Next(ctx)
	if err != nil || !slices.Equal(heir.Partitions, []int{0, 1}) {
		t.Fatalf("got %+v, %v; want both partitions before the session of the dead one is over", heir, err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	if id, err := os.ReadFile(file); err != nil || len(id) != 0 {
		t.Errorf("after Close: got %q, %v in the file, want nothing to leave for", id, err)
	}
}

// TestAMemberFileOfAnotherGroupDoesNotPreventJoining: the id in the file is of a group that is not there, as after a change of
// --group or of the cluster. The process joins as if there were no file.
func TestAMemberFileOfAnotherGroupDoesNotPreventJoining(t *testing.T) {
	_, c := groupCluster(t, 2)
	config := quick(c)
	config.MemberFile = filepath.Join(t.TempDir(), "member")
	if err := os.WriteFile(config.MemberFile, []byte("floodgate-4711"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	if gen := nextGeneration(t, g); !slices.Equal(gen.Partitions, []int{0, 1}) {
		t.Errorf("got %+v, want both partitions", gen)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
