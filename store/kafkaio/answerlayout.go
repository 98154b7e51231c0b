package kafkaio

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// layout walks over an encoded value. It sets the wire's error if a length in the value is beyond the value's end.
type layout func(*wire)

// layoutKey is an API and a version of it, as in the head of a request.
type layoutKey struct{ api, version int16 }

// answerLayouts are the layouts of the answers that kafka-go decodes, without the correlation id. They are built from the
// struct tags that kafka-go's decoder is built from, so that both read the same bytes as lengths. They are safe for
// concurrent use.
var answerLayouts = sync.OnceValue(func() map[layoutKey]layout { //nolint:gochecknoglobals // a table of constants
	all := make(map[layoutKey]layout)
	for _, answer := range []protocol.Message{
		new(apiversions.Response), new(createtopics.Response), new(describeconfigs.Response), new(findcoordinator.Response),
		new(heartbeat.Response), new(joingroup.Response), new(leavegroup.Response), new(metadata.Response),
		new(offsetcommit.Response), new(offsetfetch.Response), new(saslauthenticate.Response), new(saslhandshake.Response), new(syncgroup.Response),
	} {
		t := reflect.TypeOf(answer).Elem()
		first, last, flexible := versionsOf(t)
		for v := first; v <= last; v++ {
			all[layoutKey{int16(answer.ApiKey()), v}] = answerLayout(t, v, v >= flexible)
		}
	}
	return all
})

// answerLayout returns the layout of a whole answer. A flexible one has tagged fields in its head too.
func answerLayout(t reflect.Type, version int16, flexible bool) layout {
	body := layoutOf(t, version, flexible)
	return func(w *wire) {
		if flexible {
			w.tags()
		}
		body(w)
	}
}

// layoutOf returns the layout of a value in one version of the protocol. Flexible versions have lengths of variable size
// (KIP-482).
func layoutOf(t reflect.Type, version int16, flexible bool) layout {
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float64:
		size := int(t.Size())
		return func(w *wire) { w.take(size) }
	case reflect.String:
		if flexible {
			return func(w *wire) { w.compact() }
		}
		return func(w *wire) { w.take(int(max(w.int16(), 0))) }
	case reflect.Struct:
		return structLayout(t, version, flexible)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return arrayLayout(layoutOf(t.Elem(), version, flexible), flexible)
		}
		if flexible {
			return func(w *wire) { w.compact() }
		}
		return func(w *wire) { w.bytes() }
	}
	panic(fmt.Sprintf("BUG: an answer has a %v, which has no layout", t))
}

func arrayLayout(element layout, flexible bool) layout {
	return func(w *wire) {
		var n int
		if flexible {
			n = w.compactCount()
		} else {
			n = w.count(1)
		}
		for ; n > 0 && w.err == nil; n-- {
			element(w)
		}
	}
}

func structLayout(t reflect.Type, version int16, flexible bool) layout {
	var fields []layout
	for f := range t.Fields() {
		for _, tag := range fieldTags(f) {
			if !tag.tagged && tag.first <= version && version <= tag.last {
				fields = append(fields, layoutOf(f.Type, version, flexible))
			}
		}
	}
	return func(w *wire) {
		for _, field := range fields {
			field(w)
		}
		if flexible {
			w.tags()
		}
	}
}

// versionsOf returns the first and the last version of an answer, and the first flexible one, which is after the last if
// none is.
func versionsOf(t reflect.Type) (first, last, flexible int16) {
	first, last = -1, -1
	flexible = 1<<15 - 1
	for f := range t.Fields() {
		for _, tag := range fieldTags(f) {
			if first < 0 {
				first = tag.first
			}
			first, last = min(first, tag.first), max(last, tag.last)
			if tag.tagged {
				flexible = min(flexible, tag.first)
			}
		}
	}
	return first, last, flexible
}

// fieldTag says in which versions an answer has a field. A tagged field marks the flexible versions.
type fieldTag struct {
	first, last int16
	tagged      bool
}

// fieldTags reads the tag of a field of kafka-go, such as `kafka:"min=v0,max=v4|min=v5,max=v5,compact,nullable"`.
func fieldTags(f reflect.StructField) (tags []fieldTag) {
	text := f.Tag.Get("kafka")
	if text == "-" || f.PkgPath != "" && f.Name != "_" {
		return nil
	}
	for part := range strings.SplitSeq(text, "|") {
		var tag fieldTag
		for option := range strings.SplitSeq(part, ",") {
			switch name, value, _ := strings.Cut(option, "=v"); name {
			case "min":
				tag.first = version(value)
			case "max":
				tag.last = version(value)
			case "tag":
				tag.tagged = true
			case "compact", "nullable":
			default:
				panic(fmt.Sprintf("BUG: field %s of an answer has the tag %q, which is not known", f.Name, text))
			}
		}
		tags = append(tags, tag)
	}
	return tags
}

func version(text string) int16 {
	v, err := strconv.ParseInt(text, 10, 16)
	if err != nil {
		panic(fmt.Sprintf("BUG: an answer has the version %q", text))
	}
	return int16(v)
}
