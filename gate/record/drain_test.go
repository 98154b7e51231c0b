package record

import (
	"testing"
	"testing/synctest"
)

func TestWakeRightAfterAndRightBeforeARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Options{})
		wake := s.rec.Wake()
		synctest.Wait()
		select {
		case <-wake:
			t.Fatal("woken by nothing")
		default:
		}
		s.request("k", "/", noon)
		<-wake
		<-s.rec.Wake() // it is still there
		s.drain(t)
		s.request("k", "/", noon)
		<-s.rec.Wake() // it came before the call
	})
}
