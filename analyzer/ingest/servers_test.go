package ingest

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// asker is the address from which the real servers are asked: the one that their lines are about.
const asker = "127.0.0.7"

// realServer is a server of somebody else's, and the logs that it writes.
type realServer struct {
	program string
	files   func(dir string, port int) map[string]string // its configuration
	args    func(dir string) []string
	logs    map[string]string // format by file name; "" expects that every line is refused
	stdout  string            // the log that it prints
}

const apacheModules = "/usr/lib/apache2/modules/"

// The log formats of configurations: those of the servers themselves, and those that put what a client chooses first.
const (
	realNginxMain   = `$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time`
	realNginxProxy  = `$http_x_forwarded_for $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer"`
	realNginxFields = `time=$time_iso8601 host="$host" ip=$remote_addr user="$remote_user" path="$request_uri" status=$status`
	realApacheProxy = `%{X-Forwarded-For}i %h %l %u %t \"%r\" %>s %b`
)

func realServers() map[string]realServer {
	return map[string]realServer{
		"nginx": {
			program: "nginx", args: func(dir string) []string {
				return []string{"-p", dir, "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"}
			},
			files: func(dir string, port int) map[string]string {
				return map[string]string{"nginx.conf": fmt.Sprintf(`pid %[1]s/pid; events {} http { client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f;
					uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s; log_format main '%[3]s'; log_format proxy '%[4]s'; log_format fields escape=json '%[5]s';
					server { listen 127.0.0.1:%[2]d; access_log nginx_combined.log combined; access_log nginx_main.log main; access_log nginx_host_as_combined.log main;
					access_log nginx_proxy_as_combined.log proxy; access_log nginx_proxy_as_auto.log proxy; access_log nginx_proxy.log proxy;
					access_log nginx_fields.log fields; location / { return 200 ok; } } }`, dir, port, realNginxMain, realNginxProxy, realNginxFields)}
			},
			logs: map[string]string{
				"nginx_combined.log": "combined", "nginx_main.log": "nginx:" + realNginxMain, "nginx_host_as_combined.log": "combined",
				"nginx_proxy_as_combined.log": "combined", "nginx_proxy_as_auto.log": FormatAuto, "nginx_proxy.log": "nginx:" + realNginxProxy,
				"nginx_fields.log": "nginx:escape=json " + realNginxFields,
			},
		},
		"apache2": {
			program: "apache2", args: func(dir string) []string { return []string{"-d", dir, "-f", "apache.conf", "-DFOREGROUND"} },
			files: func(dir string, port int) map[string]string {
				return map[string]string{"apache.conf": fmt.Sprintf(`ServerName h.example
					Listen 127.0.0.1:%[2]d
					DefaultRuntimeDir %[1]s
					PidFile %[1]s/pid
					ErrorLog %[1]s/error.log
					LoadModule mpm_event_module %[3]smod_mpm_event.so
					LoadModule authz_core_module %[3]smod_authz_core.so
					DocumentRoot %[1]s
					CustomLog %[1]s/apache_combined.log "%%h %%l %%u %%t \"%%r\" %%>s %%O \"%%{Referer}i\" \"%%{User-Agent}i\""
					CustomLog %[1]s/apache_vhost.log "%%v:%%p %%h %%l %%u %%t \"%%r\" %%>s %%O \"%%{Referer}i\" \"%%{User-Agent}i\""
					CustomLog %[1]s/apache_named_as_combined.log "%%V %%h %%l %%u %%t \"%%r\" %%>s %%b"
					CustomLog %[1]s/apache_proxy_as_combined.log "%[4]s"
					CustomLog %[1]s/apache_proxy.log "%[4]s"
					`, dir, port, apacheModules, realApacheProxy)}
			},
			logs: map[string]string{
				"apache_combined.log": "combined", "apache_vhost.log": "vhost_combined", "apache_named_as_combined.log": "combined",
				"apache_proxy_as_combined.log": "combined", "apache_proxy.log": "apache:" + realApacheProxy,
			},
		},
		"haproxy": {
			program: "haproxy", args: func(string) []string { return []string{"-f", "haproxy.cfg", "-db"} }, stdout: "haproxy_http.log",
			files: func(_ string, port int) map[string]string {
				return map[string]string{"haproxy.cfg": fmt.Sprintf("global\n log stdout format raw local0\ndefaults\n mode http\n log global\n option httplog\n timeout client 5s\n"+
					" timeout server 5s\n timeout connect 5s\nfrontend in\n bind 127.0.0.1:%d\n capture request header Host len 64\n capture request header User-Agent len 200\n"+
					" capture cookie a len 64\n http-request return status 200 content-type text/plain string ok\n", port)}
			},
			logs: map[string]string{"haproxy_http.log": "haproxy"},
		},
		"caddy": {
			program: "caddy", args: func(string) []string { return []string{"run", "--config", "Caddyfile", "--adapter", "caddyfile"} },
			files: func(dir string, port int) map[string]string {
				return map[string]string{"Caddyfile": fmt.Sprintf("{\n admin off\n auto_https off\n}\nhttp://:%d {\n bind 127.0.0.1\n respond ok\n log {\n  output file %s/caddy_json.log\n }\n}\n", port, dir)}
			},
			logs: map[string]string{"caddy_json.log": "caddy"},
		},
		"lighttpd": {
			program: "lighttpd", args: func(string) []string { return []string{"-D", "-f", "lighttpd.conf"} },
			files: func(dir string, port int) map[string]string {
				return map[string]string{"lighttpd.conf": fmt.Sprintf("server.document-root = %q\nserver.bind = \"127.0.0.1\"\nserver.port = %d\nserver.modules = (\"mod_accesslog\")\n"+
					"accesslog.filename = %q\nserver.errorlog = %q\n", dir, port, dir+"/lighttpd_default.log", dir+"/error.log")}
			},
			logs: map[string]string{"lighttpd_default.log": "lighttpd"},
		},
		"squid": {
			program: "squid", args: func(string) []string { return []string{"-N", "-f", "squid.conf"} },
			files: func(dir string, port int) map[string]string {
				return map[string]string{"squid.conf": fmt.Sprintf("http_port 127.0.0.1:%[2]d\npid_filename none\ncache_log %[1]s/cache.log\naccess_log stdio:%[1]s/squid_native.log squid\n"+
					"visible_hostname h.example\ncoredump_dir %[1]s\nhttp_access deny all\nshutdown_lifetime 0 seconds\nnetdb_filename none\nbuffered_logs off\n", dir, port)}
			},
			logs: map[string]string{"squid_native.log": "squid"},
		},
	}
}

// hostileRequests are requests of a client that has read how logs are read.
func hostileRequests() (requests []string) {
	request := func(path, host, user string, headers ...string) {
		auth := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":x"))
		requests = append(requests, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: "+auth+"\r\n"+strings.Join(headers, "")+"Connection: close\r\n\r\n")
	}
	texts := []string{
		victim, victim + " -", victim + " - -", victim + " - - ", victim + ", 10.0.0.1", "bob", "a b", `"`, `" "`, `] "`, `\`, `\"`, "- -", "[x]", "ip=" + victim, "x\ty", `{"ip":"` + victim + `"}`,
		victim + ` - - [01/Jan/2030:00:00:00 +0000] "GET / HTTP/1.1" 200 17 "-" "-"`, "2001:db8::9", "unix:", "é", "\x1b[31m", "|" + victim + "|", "} " + victim + ":1 [", strings.Repeat("A", 3000),
	}
	for _, t := range texts {
		request("/", victim, t)
		request("/", "h.example", "bob", "X-Forwarded-For: "+t+"\r\n", "User-Agent: "+t+"\r\n", "Referer: "+t+"\r\n", "Cookie: a="+t+"\r\n")
		request("/", t, "bob", "X-Forwarded-For: "+t+"\r\n")
		request("/"+t, "h.example", t, "X-Forwarded-For: "+t+"\r\n", "User-Agent: "+t+"\r\n")
	}
	return append(requests, "GET / HTTP/1.0\r\n\r\n", "nonsense\r\n\r\n", "GET http://"+victim+"/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n",
		victim+" - - HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

// ask sends a request from asker and waits for the end of the answer.
func ask(port int, request string) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(asker)}, Timeout: time.Second}
	c, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, c)
	return nil
}

// TestRealServersWriteNobodyElse starts real servers, sends them hostile requests, and reads what they log: each line
// is about the asker, or it is refused. With -capture, it keeps the lines in testdata/formats/real.
func TestRealServersWriteNobodyElse(t *testing.T) {
	for name, server := range realServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := testenv.Program(t, server.program)
			dir := server.run(t, program)
			for file, format := range server.logs {
				data, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				if err := keep(filepath.Join(goldenLogs, "real", file), data); err != nil {
					t.Fatal(err)
				}
				checkRealLog(t, file, format, string(data))
			}
		})
	}
}

var capture = flag.Bool("capture", false, "keep what real servers write in testdata/formats/real")

// keep writes what a real server wrote, if that is asked for: another version of the server writes other lines, so that -update must not.
func keep(path string, data []byte) error {
	if !*capture {
		return nil
	}
	return os.WriteFile(path, data, 0o600)
}

// TestUpdatingKeepsWhatRealServersWrote: only -capture replaces it.
func TestUpdatingKeepsWhatRealServersWrote(t *testing.T) {
	update := flag.Lookup("update")
	before := [...]string{update.Value.String(), strconv.FormatBool(*capture)}
	set := func(updating, capturing string) {
		if err := errors.Join(update.Value.Set(updating), flag.Set("capture", capturing)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(before[0], before[1]) })
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		updating, capturing string
		kept                bool
	}{{"true", "false", false}, {"false", "true", true}} {
		set(c.updating, c.capturing)
		if err := keep(path, []byte("line\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); (err == nil) != c.kept {
			t.Errorf("-update=%s -capture=%s: got %v, want the lines kept %t", c.updating, c.capturing, err, c.kept)
		}
	}
}

// TestKeptLinesOfRealServers reads the lines that real servers wrote when they were asked the same, also where none is installed.
func TestKeptLinesOfRealServers(t *testing.T) {
	for _, server := range realServers() {
		for file, format := range server.logs {
			data, err := os.ReadFile(filepath.Join(goldenLogs, "real", file))
			if err != nil {
				t.Fatal(err)
			}
			checkRealLog(t, file, format, string(data))
		}
	}
}

// checkRealLog checks that each line is about the asker or refused, and that no request is lost where the format is the log's own.
func checkRealLog(t *testing.T, file, format, log string) {
	t.Helper()
	s, l := scanner(t, format, Mapping{}), roomy()
	reasons := make(map[Reason]int)
	for text := range strings.Lines(log) {
		line := strings.TrimSuffix(text, "\n")
		if !strings.Contains(line, asker) {
			continue // what haproxy says when it starts
		}
		got := Scan(s, []byte(line), l)
		reasons[got]++
		if got == OK && l.IDs[0] != asker {
			t.Errorf("%s as %s: %s: got %q, want %s", file, format, line, l.IDs, asker)
		}
		if own := !strings.Contains(file, "_as_") && !strings.Contains(file, "proxy.log"); own && got.Rejected() {
			t.Errorf("%s as %s: %.300s: got %v", file, format, line, got)
		}
	}
	if strings.Contains(file, "_as_combined") && reasons[OK] > 0 || !strings.Contains(file, "_as_") && reasons[OK] < 30 {
		t.Errorf("%s as %s: got %v", file, format, reasons)
	}
	t.Logf("%s as %.40s: %v", file, format, reasons)
}

// run asks a server all there is, stops it, and returns its directory.
func (r *realServer) run(t *testing.T, program string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "floodgate-server")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, number, _ := net.SplitHostPort(testenv.FreeAddress(t))
	port, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range r.files(dir, port) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, r.args(dir)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TZ=UTC", "HOME="+dir)
	if r.stdout != "" {
		out, err := os.Create(filepath.Join(dir, r.stdout))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdout = out
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
		}
	}()
	go func() { exited <- cmd.Wait() }()
	for deadline := time.Now().Add(20 * time.Second); ask(port, "GET / HTTP/1.0\r\n\r\n") != nil; {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen", r.program)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, request := range hostileRequests() {
		if err := ask(port, request); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
