package tail

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// oneLog is what a server writes to a file until it is truncated.
type oneLog struct {
	f   *modelFile
	cut int
}

// writtenTo says where and when a line was written.
type writtenTo struct {
	oneLog

	start int64 // bytes from the start of the log
	at    time.Time
	turn  int // how many turns had begun: those that begin later can read the line
}

// judge compares what was counted with what was written. Each log of which lines are missing has a report of its own, at or before the
// first of them.
func (h *history) judge() (missing int) {
	lost := make(map[oneLog]bool)
	reports := slices.Clone(h.reports)
	slices.Sort(reports)
	for _, line := range h.written {
		switch n := h.counted[line]; {
		case n > 1 && !h.t.Failed():
			h.t.Errorf("seed %d, %+v: line %.7s counts %d times", h.seed, h.kind, line, n)
		case n == 0 && !h.excused[line]:
			missing++
			to := h.logs[line]
			if lost[to.oneLog] {
				continue
			}
			lost[to.oneLog] = true
			i := h.report(to, reports)
			if (i < 0 || !h.loses) && !h.t.Failed() {
				h.t.Errorf("seed %d, %+v: line %.7s at %d is missing, the log %d of those that miss some, with reports at %d", h.seed, h.kind, line, to.start, len(lost), h.reports)
			}
			if i >= 0 {
				reports = slices.Delete(reports, i, i+1)
			}
		}
	}
	return missing
}

// report returns which report is of the log of a line that is missing, or −1: the last one at which a line of the log begins or ends, up to
// that line.
func (h *history) report(missing writtenTo, reports []int64) int {
	ends := map[int64]bool{0: true}
	for line, to := range h.logs {
		if to.oneLog == missing.oneLog {
			ends[to.start], ends[to.start+int64(len(line)+1)] = true, true
		}
	}
	for i, at := range slices.Backward(reports) {
		if at <= missing.start && ends[at] {
			return i
		}
	}
	return -1
}

// truncate truncates the log. No copy has the lines behind the first n bytes: they may be missing if no look came between.
func (h *history) truncate(n int) {
	f := h.disk.names[logPath]
	for line := range strings.Lines(string(f.data[n:])) {
		if line = strings.TrimSuffix(line, "\n"); h.logs[line].turn >= h.looked {
			h.excused[line] = true
		}
	}
	f.truncate(0)
}

// excuseLate excuses lines at the end of a log that was read and given up: no look has met them.
func (h *history) excuseLate(f *modelFile) {
	if h.follower == nil || f.opened > f.writers || !h.givenUp(f) {
		return
	}
	var late []string
	read := false
	for line := range strings.Lines(string(f.text())) {
		line = strings.TrimSuffix(line, "\n")
		switch to := h.logs[line]; {
		case line[0] == '#':
		case h.counted[line] > 0:
			read, late = true, nil
		case h.excused[line] || to.turn >= h.scanned && h.clock.Sub(to.at) < scanEvery:
			late = append(late, line)
		default:
			return
		}
	}
	for _, line := range late {
		h.excused[line] = h.excused[line] || read
	}
}

// givenUp reports whether the follower does not wait for the log that a file has.
func (h *history) givenUp(f *modelFile) bool {
	text := content{bytes.NewReader(f.text()), int64(len(f.text()))}
	return !slices.ContainsFunc(h.follower.Positions.of(logPath), func(l *logFile) bool {
		agreed, err := text.agreement(l.places())
		return err == nil && agreed >= l.Own && !l.Finished && !slices.ContainsFunc(h.follower.readers, func(r *reader) bool { return r.log == l && r.ending })
	})
}

// excuseDeleted calls excuse for each deleted file that no process has open.
func (h *history) excuseDeleted() {
	for _, f := range h.deleted {
		if f.gone() {
			h.excuse(f.text())
		}
	}
}

// excuse notes the lines of a deleted text that may be missing: those that no look has met and that no file has. Nobody can know of them.
func (h *history) excuse(text []byte) {
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line[0] == '#' {
			continue
		}
		if h.counted[line] > 0 || h.logs[line].turn < h.scanned && !h.excused[line] {
			return
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		for _, f := range h.disk.names {
			if bytes.Contains(f.text(), []byte(line)) {
				return
			}
		}
	}
	for _, line := range lines {
		h.excused[line] = true
	}
}
