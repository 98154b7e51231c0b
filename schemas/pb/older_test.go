package pb

import (
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/509da70d/floodgate/schemas"
)

// olderRecord returns DecisionsRecord as it was before there were early closures and shares.
func olderRecord(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(File_floodgate_proto)
	last := map[string]int32{"Decision": 11, "Evidence": 8}
	file.MessageType = slices.DeleteFunc(file.GetMessageType(), func(m *descriptorpb.DescriptorProto) bool {
		if n, is := last[m.GetName()]; is {
			m.Field = slices.DeleteFunc(m.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool { return f.GetNumber() > n })
		}
		return m.GetName() == "Span" || m.GetName() == "Share"
	})
	older, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return older.Messages().ByName("DecisionsRecord")
}

// predicted returns a decision that says all that older gates do not know, and what they know of it.
func predicted() (all, known *schemas.Decision) {
	all, known = newDecision(), newDecision()
	all.Early, all.Next, all.Share = true, nextOf(all), newShare()
	all.Evidence.Expected, all.Evidence.Bound = 0.0081, 0.065
	return all, known
}

// A gate of before skips what it does not know, and closes its caller for the first span.
func TestAnOlderGateSeesTheFirstSpanOnly(t *testing.T) {
	all, known := predicted()
	older := dynamicpb.NewMessage(olderRecord(t))
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(encode(t, Record{Decision: all}), older); err != nil {
		t.Fatal(err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(older)
	if err != nil {
		t.Fatal(err)
	}
	if want := encode(t, Record{Decision: known}); string(b) != string(want) {
		t.Errorf("an older gate reads %x, want %x", b, want)
	}
	decision := older.Get(older.Descriptor().Fields().ByName("decision")).Message()
	for name, want := range map[protoreflect.Name]int64{"close_at": all.CloseAt, "until": all.Until} {
		if got := decision.Get(decision.Descriptor().Fields().ByName(name)).Int(); got != want {
			t.Errorf("%s: an older gate reads %d, want %d", name, got, want)
		}
	}
}

// An analyzer of before says nothing of early closures and shares: what it says is counted, closes once, and gives no share.
func TestADecisionOfAnOlderAnalyzerHasOneSpan(t *testing.T) {
	_, known := predicted()
	older := dynamicpb.NewMessage(olderRecord(t))
	if err := proto.Unmarshal(encode(t, Record{Decision: known}), older); err != nil {
		t.Fatal(err)
	}
	if unknown := older.Get(older.Descriptor().Fields().ByName("decision")).Message().GetUnknown(); len(unknown) != 0 {
		t.Errorf("a plain decision has fields that older gates do not know: %x", unknown)
	}
	b, err := proto.Marshal(older)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil || !reflect.DeepEqual(got.Decision, known) {
		t.Fatalf("got %+v, %v, want %+v", got.Decision, err, known)
	}
	if d := got.Decision; d.Early || d.Next != (schemas.Span{}) || d.Share != nil {
		t.Errorf("got %+v, want one span, not early, and no share", d)
	}
}
