package daemon

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fatih/color"

	"github.com/509da70d/floodgate/analyzer/api"
)

// TestTheReadmeShowsALineOfServe: the README has a line as serve prints it each second.
func TestTheReadmeShowsALineOfServe(t *testing.T) {
	at := time.Date(2026, 11, 27, 17, 25, 50, 0, time.UTC)
	v := &serveView{host: &host{intake: new(intake)}, red: color.New()}
	line := v.line(serveTotals{at: at, read: 3002, rows: 40, shadow: 20, lag: 6200 * time.Microsecond}, serveTotals{at: at.Add(-time.Second)})
	readme, err := os.ReadFile("../../../README.md")
	if err != nil || !strings.Contains(string(readme), "\n"+line+"\n") {
		t.Errorf("got %v, want a README with the line\n%s", err, line)
	}
}

// TestALineSaysWhatIsWrong: callers that are closed, lines that cannot be read, a log that is far behind, and what serve waits for.
func TestALineSaysWhatIsWrong(t *testing.T) {
	at := time.Date(2026, 11, 27, 17, 25, 50, 0, time.UTC)
	v := &serveView{host: &host{}, red: color.New()}
	got := v.line(serveTotals{at: at, read: 30, closed: 3, refused: 7, rejected: 4, behind: 5 << 20, waits: "no room"}, serveTotals{at: at.Add(-2 * time.Second), read: 10, refused: 5})
	want := "17:25:50        10 requests/s  callers x rules 0  would be closed 0  closed 3, refused 2/s  unreadable 4  5.2 MB to read  (no room)"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestALineAfterANewMapping: its lines are counted from zero.
func TestALineAfterANewMapping(t *testing.T) {
	at := time.Date(2026, 11, 27, 17, 25, 50, 0, time.UTC)
	v := &serveView{host: &host{intake: new(intake)}, red: color.New()}
	if got := v.line(serveTotals{at: at, read: 7}, serveTotals{at: at.Add(-time.Second), read: 9000}); !strings.Contains(got, " 7 lines/s ") {
		t.Errorf("got\n%s\nwant 7 lines/s", got)
	}
}

// TestTheLinkHasTheAddressOfTheAPI, also if the system has chosen the port.
func TestTheLinkHasTheAddressOfTheAPI(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out strings.Builder
	h := &host{config: &serveConfig{api: "127.0.0.1:0"}, links: new(api.Links), apiBound: l}
	newServeView(&out, false, h).invite()
	if want := ": http://" + l.Addr().String() + "/"; !strings.Contains(out.String(), want) {
		t.Errorf("got %q, want %q in it", out.String(), want)
	}
}
