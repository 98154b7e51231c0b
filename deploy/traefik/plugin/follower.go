package plugin

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	silence = 3 * time.Second  // a connection on which nothing comes for so long is dead
	grace   = 30 * time.Second // a follower that no router uses ends after it
	maxLine = 1 << 20          // bytes
)

// followers are those of this Traefik, by feed and key. Routers share them, and the next configuration finds them again.
var followers = struct { //nolint:gochecknoglobals // Traefik makes each middleware on its own, and gives them nothing to share
	sync.Mutex
	byFeed map[string]*follower
}{byFeed: make(map[string]*follower)}

// follower follows a feed for all routers that use it.
type follower struct {
	memory *memory
	name   string // in followers
	feed   string
	key    string
	users  int // routers; followers protects it
	ended  chan struct{}
}

// follow returns the follower of a feed, for as long as ctx lasts, and begins one if there is none.
func follow(ctx context.Context, config *Config) (*follower, error) {
	if address, isSocket := strings.CutPrefix(config.Feed, "unix:"); address == "" || !isSocket && config.Key == "" {
		return nil, errors.New("floodgate: feed: got " + config.Feed + ", want unix:PATH, or HOST:PORT with a key")
	}
	name := config.Feed + " " + config.Key
	followers.Lock()
	defer followers.Unlock()
	f := followers.byFeed[name]
	if f == nil {
		f = &follower{memory: newMemory(config.MaxHeld), name: name, feed: config.Feed, key: config.Key, ended: make(chan struct{})}
		followers.byFeed[name] = f
		go f.run()
	}
	f.users++
	context.AfterFunc(ctx, f.release)
	return f, nil
}

// release says that a router uses the follower no more.
func (f *follower) release() {
	followers.Lock()
	f.users--
	followers.Unlock()
	time.AfterFunc(grace, f.endUnused)
}

// endUnused ends the follower if nobody uses it.
func (f *follower) endUnused() {
	followers.Lock()
	defer followers.Unlock()
	if f.users == 0 && followers.byFeed[f.name] == f {
		delete(followers.byFeed, f.name)
		close(f.ended)
	}
}

// run follows the feed until the follower has ended. It connects again at once, and then each second.
func (f *follower) run() {
	away := false
	for {
		began := time.Now()
		err := f.read(func() {
			if away {
				slog.Info("floodgate: follows the feed again", "feed", f.feed)
			}
			away = false
		})
		if !away {
			slog.Warn("floodgate: the feed is away, closures stay until they end", "feed", f.feed, "error", err.Error())
		}
		away = true
		select {
		case <-f.ended:
			return
		case <-time.After(time.Second - time.Since(began)):
		}
	}
}

// read reads the feed until its connection ends, and calls connected once it answers.
func (f *follower) read(connected func()) error {
	network := "tcp"
	address, isSocket := strings.CutPrefix(f.feed, "unix:")
	if isSocket {
		network = "unix"
	}
	conn, err := net.DialTimeout(network, address, silence)
	if err != nil {
		return err
	}
	defer conn.Close()
	query := ""
	if f.memory.cursor != "" {
		query = "?since=" + url.QueryEscape(f.memory.cursor)
	}
	request, err := http.NewRequest(http.MethodGet, "http://floodgate/v1/closed"+query, http.NoBody)
	if err != nil {
		return err
	}
	if f.key != "" {
		request.Header.Set("Authorization", "Bearer "+f.key)
	}
	_ = conn.SetDeadline(time.Now().Add(silence))
	if err := request.Write(conn); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 1<<16), request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New("the feed answered with status " + response.Status)
	}
	connected()
	return f.lines(conn, response)
}

// lines takes the lines of an answer.
func (f *follower) lines(conn net.Conn, response *http.Response) error {
	f.memory.connects()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	for lines.Scan() {
		now := time.Now()
		f.memory.take(lines.Bytes(), unix(now), f.memory.elapsed())
		if f.memory.stops() {
			return errors.New("the feed has another version")
		}
		select {
		case <-f.ended:
			return errors.New("nobody uses it")
		default:
		}
		_ = conn.SetDeadline(now.Add(silence))
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return errors.New("the connection ended")
}
