package modelconfig

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// filled is a config as large as one may be, of what is repeated.
func filled(before, one, after string) string {
	return before + strings.Repeat(one, (maxSize-len(before)-len(after))/len(one)) + after
}

// TestWhatBecomesTooMuchIsRefused before it is decoded: a ConfigMap of 1 MiB takes 60 MiB in the manager otherwise.
func TestWhatBecomesTooMuchIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"models":                   filled("model_config_list{", "config{}", "}"),
		"models in angles":         filled("model_config_list{", "config<>", "}"),
		"models in a list":         filled("model_config_list{config:[", "{},", "{}]}"),
		"policies":                 filled("model_config_list{", "config{model_version_policy{specific{}}}", "}"),
		"versions":                 filled("model_config_list{config{model_version_policy{specific{versions:[", "1,", "1]}}}}"),
		"versions after a comment": filled("# \"\nmodel_config_list{config{model_version_policy{specific{versions:[", "1,", "1]}}}}"),
		"versions after a text":    filled("model_config_list{config{name:'\\'\"#'model_version_policy{specific{versions:[", "1,", "1]}}}}"),
		"parts of a text":          filled("model_config_list{config{name:", `""`, "}}"),
		"fields of a newer server": filled("model_config_list{config{", "x:1 ", "}}"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := ParseNewer(text)
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || !strings.Contains(err.Error(), errTooMany.Error()) || took > 4 {
			t.Errorf("%s: %d MiB, %.100s", name, took, fmt.Sprint(err))
		}
	}
}

// TestALargeConfigOfOrdinaryModelsIsRead, as large as a ConfigMap holds.
func TestALargeConfigOfOrdinaryModelsIsRead(t *testing.T) {
	for _, form := range []string{
		`config{name:"m%06d" base_path:"/m/1" model_platform:"tensorflow"}`,
		`config{name:"m%06d",base_path:"/m/1",model_platform:"tensorflow"},`,
		`config{name:"m%06d" base_path:"/m/1" model_platform:"tensorflow" model_version_policy{latest{num_versions:2}}}`,
		`config:{name:"m%06d" base_path:"/m/1" model_platform:"tensorflow" model_version_policy:{specific:{versions:1,versions:2}}` +
			` version_labels:{key:"stable" value:1} version_labels:{key:"canary" value:2}}` + "\n",
		`config { # {{{{ "m%06d` + "\n" + `name: '{{{{{{{{{{{{%[1]d::::::::' base_path: "/,,,,," model_platform: "tensorflow" }`,
	} {
		text := "model_config_list {"
		for i := 0; len(text) < maxSize-300; i++ {
			text += fmt.Sprintf(form, i)
		}
		if c, err := Parse(text + "}"); err != nil || len(c.Models()) < 5000 {
			t.Errorf("%s: %d models, %v", form, len(c.Models()), err)
		}
	}
}

// FuzzSize compares the counts with what the text becomes.
func FuzzSize(f *testing.F) {
	for _, text := range fuzzSeeds {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := dynamicpb.NewMessage(serverConfig)
		if prototext.Unmarshal([]byte(text), m) != nil {
			return
		}
		wantMessages, wantValues := contained(m)
		if messages, values := sizeOf(text); messages < wantMessages || messages+values < wantMessages+wantValues {
			t.Errorf("%q has %d messages and %d values, not %d and %d", text, messages, values, wantMessages, wantValues)
		}
	})
}

// contained counts the messages and the scalars in a message.
func contained(of protoreflect.Message) (messages, scalars int) {
	one := func(v protoreflect.Value) {
		if inner, is := v.Interface().(protoreflect.Message); is {
			a, b := contained(inner)
			messages, scalars = messages+1+a, scalars+b
			return
		}
		scalars++
	}
	of.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			messages += v.Map().Len() // Each is a message in the text.
		case field.IsList():
			for i := range v.List().Len() {
				one(v.List().Get(i))
			}
		default:
			one(v)
		}
		return true
	})
	return messages, scalars
}
