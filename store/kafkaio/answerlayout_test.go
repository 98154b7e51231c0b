package kafkaio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// TestEachAnswerThatIsDecodedElsewhereHasALayout goes through all requests; this package decodes three of them itself.
func TestEachAnswerThatIsDecodedElsewhereHasALayout(t *testing.T) {
	for _, n := range append(needs(), need{key: protocol.SaslHandshake, minVersion: 1, maxVersion: 1},
		need{key: protocol.SaslAuthenticate, maxVersion: 1}, need{key: protocol.ApiVersions, maxVersion: 2}) {
		if n.key == protocol.Fetch || n.key == protocol.Produce || n.key == protocol.ListOffsets {
			continue
		}
		for v := n.minVersion; v <= n.maxVersion; v++ {
			if answerLayouts()[layoutKey{int16(n.key), int16(v)}] == nil {
				t.Errorf("%v, version %d: got no layout", n.key, v)
			}
		}
	}
}

// TestLayoutsFitWhatKafkaGoWrites fills each version of each answer at random. Its layout ends where the answer ends, and an
// answer that was cut anywhere is refused.
func TestLayoutsFitWhatKafkaGoWrites(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for key, fields := range answerLayouts() {
		for range 20 {
			body := randomAnswer(t, rng, key)
			w := &wire{b: body}
			if fields(w); w.err != nil || len(w.b) != 0 {
				t.Fatalf("%v version %d: got %v and %d bytes left of %x, want its end", protocol.ApiKey(key.api), key.version, w.err, len(w.b), body)
			}
			for cut := range body {
				w := &wire{b: body[:cut]}
				if fields(w); !errors.Is(w.err, errWrongAnswer) {
					t.Fatalf("%v version %d, %d bytes of %x: got %v, want a refusal", protocol.ApiKey(key.api), key.version, cut, body, w.err)
				}
			}
		}
	}
}

// TestAFlippedBitAsksForNoMemory flips each bit of a metadata answer. A topic whose name became shorter would have billions
// of partitions: "ate" of "floodgate", as a number.
func TestAFlippedBitAsksForNoMemory(t *testing.T) {
	answer := &metadata.Response{
		Brokers: []metadata.ResponseBroker{{NodeID: 1, Host: "broker-1.example.com", Port: 9092}},
		Topics: []metadata.ResponseTopic{{Name: "floodgate.requests", Partitions: []metadata.ResponsePartition{
			{ReplicaNodes: []int32{1}, IsrNodes: []int32{1}}, {PartitionIndex: 1, ReplicaNodes: []int32{1}, IsrNodes: []int32{1}},
		}}},
	}
	body := encodeAnswer(t, answer, 8)
	refused := 0
	for bit := range 8 * len(body) {
		flipped := bytes.Clone(body)
		flipped[bit/8] ^= 1 << (bit % 8)
		if !decodes(t, layoutKey{int16(protocol.Metadata), 8}, flipped) {
			refused++
		}
	}
	if refused == 0 || refused == 8*len(body) {
		t.Errorf("got %d of %d flips refused, want those of lengths", refused, 8*len(body))
	}
}

// FuzzAnswer gives kafka-go only what a layout lets through. It never panics, and takes memory by the size of the answer.
func FuzzAnswer(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for key := range answerLayouts() {
		f.Add(key.api, key.version, randomAnswer(f, rng, key))
	}
	f.Add(int16(protocol.ApiVersions), int16(0), []byte("\x00\x00\x30\x30\x20\x42ad Request"))
	f.Add(int16(protocol.CreateTopics), int16(5), taggedAsMarker)
	f.Fuzz(func(t *testing.T, api, version int16, body []byte) {
		key := layoutKey{api, version}
		if answerLayouts()[key] != nil {
			decodes(t, key, body)
		}
	})
}

// taggedAsMarker is an answer to CreateTopics with a tagged field of number 2⁶⁴−1, whose bytes kafka-go would decode: as a tagged
// field of 2⁶³−1 bytes.
var taggedAsMarker = []byte("\x00" + "\x00\x00\x00\x00" + "\x01" + "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x0b" + "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f")

func TestATagThatIsKafkaGosOwnMarkerIsRefused(t *testing.T) {
	if decodes(t, layoutKey{int16(protocol.CreateTopics), 5}, taggedAsMarker) {
		t.Error("got it decoded, want a refusal")
	}
}

// decodes reports whether the layout of an answer lets it through. If so, kafka-go gets it.
func decodes(t *testing.T, key layoutKey, body []byte) bool {
	t.Helper()
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	framed = append(append(framed, 0, 0, 0, 7), body...)
	checked, err := readChecked(bytes.NewReader(framed), answerLayouts()[key])
	if err != nil {
		return false
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, _ = protocol.ReadResponse(bytes.NewReader(checked), protocol.ApiKey(key.api), key.version) // it may be nonsense
	runtime.ReadMemStats(&after)
	// An element takes at least a byte, and at most 256 in memory. Other goroutines of the tests may allocate a little.
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20+uint64(256*len(body)) {
		t.Fatalf("%v version %d, %x: got %d bytes allocated", protocol.ApiKey(key.api), key.version, body, took)
	}
	return true
}

// randomAnswer returns an encoded answer, without its size and correlation id.
func randomAnswer(t testing.TB, rng *rand.Rand, key layoutKey) []byte {
	t.Helper()
	_, empty, err := protocol.ReadResponse(bytes.NewReader(append([]byte{0, 0, 4, 4}, make([]byte, 1028)...)), protocol.ApiKey(key.api), key.version)
	if err != nil {
		t.Fatal(err)
	}
	fill(rng, reflect.ValueOf(empty).Elem())
	return encodeAnswer(t, empty, key.version)
}

func encodeAnswer(t testing.TB, answer protocol.Message, version int16) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := protocol.WriteResponse(&b, version, 7, answer); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[8:]
}

// fill sets all fields at random; lists have up to three elements.
func fill(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rng.Int64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(rng.Float64())
	case reflect.String:
		v.SetString(fmt.Sprintf("%0*d", rng.IntN(300), 0))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 3))
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Uint8 {
				v.Index(i).SetUint(rng.Uint64N(256))
				continue
			}
			fill(rng, v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(rng, field)
			}
		}
	}
}
