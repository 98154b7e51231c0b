package analyzer

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
)

// TestEveryLookIsARefoldUpToItsOffset: many ask while an owner counts, and it is stopped and goes on from its store. What each of them
// was told is what a fold of the log up to that offset says, by name and number.
func TestEveryLookIsARefoldUpToItsOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		type answer struct {
			at   At
			look fold.Look
		}
		var answers []answer // appended to by the owner's goroutine only
		for range 3 {
			w.start()
			synctest.Wait()
			var all sync.WaitGroup
			all.Go(func() {
				for n := range 60 {
					w.prod.send(time.Now(), fmt.Sprint("k", n%5), fmt.Sprint("k", n%3))
					if n%4 == 0 {
						time.Sleep(300 * time.Millisecond)
					}
				}
			})
			for n := range 4 {
				all.Go(func() {
					for range 40 {
						mustAsk(t, w.owner, func(f *fold.Fold, at At) {
							c := schemas.Caller{Kind: "key", ID: fmt.Sprint("k", n)}
							answers = append(answers, answer{at, f.View().Look(c, f.LogTime())})
						})
						time.Sleep(time.Duration(37+n) * time.Millisecond)
					}
				})
			}
			all.Wait()
			w.end()
		}
		offsets := make(map[int64]bool)
		for _, a := range answers {
			offsets[a.at.Offset] = true
			again := fold.New(w.conf.Rules, w.conf.Fold)
			for _, r := range w.log.Records("requests", 0) {
				if r.Offset < a.at.Offset {
					_ = again.Frame(fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value})
				}
			}
			if want := again.View().Look(a.look.Caller, a.look.Now); !reflect.DeepEqual(a.look, want) || a.at.LogTime != again.LogTime() {
				t.Fatalf("as of offset %d: got %+v, want %+v", a.at.Offset, a.look, want)
			}
		}
		if len(answers) != 480 || len(offsets) < 20 {
			t.Errorf("got %d answers at %d offsets, want 480 at many", len(answers), len(offsets))
		}
	})
}
