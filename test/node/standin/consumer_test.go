package main

import (
	"net/http"
	"testing"
)

func TestTheConsumerRefusesWhatTrustyAIRefuses(t *testing.T) {
	h := (&service{}).api(pythonPaths)
	for _, c := range []struct {
		path, body string
		code       int
	}{
		{"/consumer/kserve/v2", partialPayload, http.StatusOK},
		{"/consumer/kserve/v2", `{"id":"one","kind":"response","modelid":"m","data":"KgMKAWk="}`, http.StatusOK},
		{"/consumer/kserve/v2", `{"id":"one"}`, http.StatusBadRequest},
		{"/consumer/kserve/v2", `{"id":"one","kind":"request","modelid":"m","data":"AA=="}`, http.StatusBadRequest},
		{"/consumer/kserve/v2", `{"id":"one","kind":"request","modelid":"m","data":"?"}`, http.StatusBadRequest},
		{"/consumer/kserve/v2", `{"id":"one","kind":"request","modelid":"m","data":"CgH/"}`, http.StatusBadRequest},
		{"/consumer/kserve/v2", `{"id":"one","kind":"request","modelid":"m","data":"KgMKCWk="}`, http.StatusBadRequest},
		{"/consumer/kserve/v2", `{"id":"one","kind":"other","modelid":"m","data":"CgFt"}`, http.StatusUnprocessableEntity},
		{"/consumer/kserve/v2", `{"id":1,"kind":"request","modelid":"m","data":"CgFt"}`, http.StatusUnprocessableEntity},
		{"/consumer/kserve/v2", `{`, http.StatusUnprocessableEntity},
		{"/", eventPayload, http.StatusOK},
		{"/", `{"id":"one","model_name":"m","outputs":[{"name":"o","shape":[2],"datatype":"BYTES","data":["a","b"]}]}`, http.StatusOK},
		{"/", `{"id":"one"}`, http.StatusBadRequest},
		{"/", `{"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`, http.StatusBadRequest},
		{"/", `{"id":"one","inputs":[]}`, http.StatusBadRequest},
		{"/", `{"id":"one","inputs":[{"shape":[1],"datatype":"FP64","data":[1]}]}`, http.StatusBadRequest},
		{"/", `{"id":"one","inputs":[{"name":"i","shape":[2],"datatype":"FP64","data":[1]}]}`, http.StatusBadRequest},
		{"/", `{"id":"one","inputs":[{"name":"i","shape":[1],"datatype":"FLOAT","data":[1]}]}`, http.StatusBadRequest},
		{"/", `{"id":"one","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":["a"]}]}`, http.StatusBadRequest},
		{"/", `{"id":"one","inputs":[{"name":"i","shape":[1],"datatype":"UINT8","data":[-1]}]}`, http.StatusBadRequest},
		{"/", `{"id":"one","inputs":[{"name":"i","shape":[1],"datatype":"BYTES","data":[1]}]}`, http.StatusBadRequest},
	} {
		if w := ask(h, "POST", c.path, c.body); w.Code != c.code {
			t.Errorf("%s %s is answered %d %s, not %d", c.path, c.body, w.Code, w.Body, c.code)
		}
	}
	if w := ask(h, "POST", "/", `{"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`, "Ce-Id: one"); w.Code != http.StatusOK {
		t.Errorf("an event whose header has the id is answered %d", w.Code)
	}
}

func TestADatabaseIsNotReadyWithAPortThatIsNone(t *testing.T) {
	env := map[string]string{
		"SERVICE_STORAGE_FORMAT": "DATABASE", "DATABASE_USERNAME": "u", "DATABASE_PASSWORD": "p", "DATABASE_SERVICE": "s", "DATABASE_NAME": "n",
	}
	ready := storageOf(container{env: func(name string) (string, bool) {
		value, found := env[name]
		return value, found
	}})
	if err := ready(); err != nil {
		t.Fatal(err)
	}
	env["DATABASE_PORT"] = "mysql"
	if ready() == nil {
		t.Error("a port that is no number is taken")
	}
	delete(env, "DATABASE_PORT")
	delete(env, "DATABASE_PASSWORD")
	if ready() == nil {
		t.Error("a missing password is taken")
	}
}
