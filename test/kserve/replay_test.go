package kserve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm/config"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
)

// line is one line of a recording.
type line struct {
	Topic   string
	Message map[string]any
}

func (l line) text(key string) string {
	s, _ := l.Message[key].(string)
	return s
}

// participants is what participants say; all else in the recording is the runtime's.
var participants = []string{
	"PARTICIPANT_REGISTER", "PARTICIPANT_DEREGISTER", "PARTICIPANT_STATUS", "PARTICIPANT_REQ_SYNC_MSG", "PARTICIPANT_PRIME_ACK",
	"AUTOMATION_COMPOSITION_STATECHANGE_ACK",
}

// player is the real ONAP runtime 9.1.0, as it was recorded, on a broker with both topics.
type player struct {
	*site
	client *kgo.Client
	// own replaces ids of the recording and its namespace, since the cluster is shared.
	own *strings.Replacer
	mu  sync.Mutex
	// said is what the participant says.
	said []line
	news *sync.Cond
}

// inClear has the shipped application.yaml connect without TLS and without credentials.
func inClear(t *testing.T) {
	t.Helper()
	t.Setenv("kafkaSecurityProtocol", "PLAINTEXT")
	t.Setenv("SASL_JAAS_CONFIG", "")
}

// play starts the participant with the shipped application.yaml.
func play(t *testing.T) *player {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.SeedTopics(10, acmruntime.Topic, acmruntime.SyncTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	shipped, err := os.ReadFile(filepath.Join("..", "..", "config", "components", "participant", "application.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	inClear(t)
	id := uuid.NewString()
	p := &player{site: &site{t: t, c: cluster.Shared(t)}}
	p.news = sync.NewCond(&p.mu)
	p.c.InstallCRDs(t)
	p.ns = p.c.Namespace(t)
	p.allow(p.ns)
	t.Cleanup(p.clean)
	p.own = strings.NewReplacer(config.DefaultParticipantID, id, "kserve-test", p.ns, "45b06d8a-952a-59ca-99f9-678637e3cae7", "")
	p.yaml = strings.NewReplacer(config.DefaultParticipantID, id, "${topicServer:kafka:9092}", broker.ListenAddrs()[0]).Replace(string(shipped))
	if p.client, err = kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics(acmruntime.Topic)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.listen(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		p.client.Close()
	})
	p.run()
	return p
}

// listen keeps what the participant says.
func (p *player) listen(ctx context.Context) {
	for ctx.Err() == nil {
		p.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			one := line{Topic: r.Topic}
			if json.Unmarshal(r.Value, &one.Message) == nil && slices.Contains(participants, one.text("messageType")) {
				p.mu.Lock()
				p.said = append(p.said, one)
				p.mu.Unlock()
				p.news.Broadcast()
			}
		})
	}
}

// await waits for something that the participant says, and returns it.
func (p *player) await(what string, is func(line) bool) line {
	p.t.Helper()
	ctx := within(p.t)
	stop := context.AfterFunc(ctx, p.news.Broadcast)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if at := slices.IndexFunc(p.said, is); at >= 0 {
			return p.said[at]
		}
		if ctx.Err() != nil {
			p.t.Fatalf("the participant does not say %s; it has said %v", what, p.said)
		}
		p.news.Wait()
	}
}

// send publishes a message of the recording as the runtime does: under its partitionKey.
func (p *player) send(l line) {
	p.t.Helper()
	value, err := json.Marshal(l.Message)
	p.must(err)
	p.must(p.client.ProduceSync(within(p.t), &kgo.Record{Topic: l.Topic, Key: []byte(l.text("partitionKey")), Value: value}).FirstErr())
}

// part reads one part of the recording.
func (p *player) part(name string) []line {
	p.t.Helper()
	file, err := os.Open(filepath.Join("..", "testdata", "acm-9.1.0", name+".jsonl"))
	p.must(err)
	defer file.Close()
	var out []line
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one line
		p.must(json.Unmarshal([]byte(p.own.Replace(lines.Text())), &one))
		out = append(out, one)
	}
	p.must(lines.Err())
	return out
}

// replay plays the runtime's half of a part on some topics. Where the recorded participant has acknowledged something before the next
// message and expected says that it should, the same acknowledgement is waited for. The registration is acknowledged as it comes.
func (p *player) replay(lines []line, expected func(line) bool, topics ...string) {
	p.t.Helper()
	for _, l := range lines {
		kind := l.text("messageType")
		switch {
		case slices.Contains(participants, kind):
			if l.text("responseTo") != "" && expected(l) {
				p.same(l)
			}
		case kind == "PARTICIPANT_REGISTER_ACK" || !slices.Contains(topics, l.Topic):
		default:
			p.send(l)
		}
	}
}

// same waits for an acknowledgement that says the same: the same fields, and in them the same, but for the times and the replica, and for
// what the model is like, of which the reports were made at other moments.
func (p *player) same(want line) {
	p.t.Helper()
	got := p.await("the answer to "+want.text("responseTo"), func(l line) bool { return l.text("responseTo") == want.text("responseTo") })
	for key := range got.Message {
		if _, recorded := want.Message[key]; !recorded {
			p.t.Errorf("to %s, the field %s was not recorded", want.text("responseTo"), key)
		}
	}
	for key, value := range want.Message {
		switch key {
		case "timestamp", "replicaId", "outPropertiesUpdated", "automationCompositionResultMap":
			if _, there := got.Message[key]; !there {
				p.t.Errorf("to %s, there is no %s", want.text("responseTo"), key)
			}
		default:
			if got.Message[key] != value {
				p.t.Errorf("to %s, %s is %v, not %v", want.text("responseTo"), key, got.Message[key], value)
			}
		}
	}
	for _, key := range []string{"deployState", "lockState", "result", "message"} {
		if g, w := states(got, key), states(want, key); g != w {
			p.t.Errorf("to %s, %s are %s, not %s", want.text("responseTo"), key, g, w)
		}
	}
}

// states are the states of an acknowledgement, by element.
func states(l line, key string) string {
	out := map[string]any{}
	results, _ := l.Message["automationCompositionResultMap"].(map[string]any)
	for id, result := range results {
		one, _ := result.(map[string]any)
		out[id] = one[key]
	}
	return fmt.Sprint(out)
}

// registered acknowledges the registration on the second topic, as 9.1.0 does.
func (p *player) registered() {
	p.t.Helper()
	asked := p.await("that it is there", func(l line) bool { return l.text("messageType") == "PARTICIPANT_REGISTER" })
	ctx := within(p.t)
	stop := context.AfterFunc(ctx, p.news.Broadcast)
	defer stop()
	for ctx.Err() == nil {
		p.send(line{Topic: acmruntime.SyncTopic, Message: map[string]any{
			"messageType": "PARTICIPANT_REGISTER_ACK", "responseTo": asked.text("messageId"), "message": "Participant Register Ack",
			"participantId": asked.text("participantId"), "replicaId": asked.text("replicaId"), "partitionKey": asked.text("participantId"),
		}})
		p.mu.Lock()
		told := slices.ContainsFunc(p.said, func(l line) bool { return l.text("messageType") == "PARTICIPANT_STATUS" })
		before := len(p.said)
		for !told && len(p.said) == before && ctx.Err() == nil {
			p.news.Wait() // It asks again until it is answered.
		}
		p.mu.Unlock()
		if told {
			return
		}
	}
	p.t.Fatal("the participant does not read the acknowledgement of its registration")
}

// held are the orders that wait.
func (p *player) held() []keeper.PendingOrder {
	p.t.Helper()
	list := keeper.PendingOrderList{}
	p.must(p.c.Client.List(context.Background(), &list))
	return list.Items
}

func every(line) bool { return true }

// TestReplayOfTheFirstPart: with the shipped file the orders are carried out, which the recorded participant held for ever.
func TestReplayOfTheFirstPart(t *testing.T) {
	p := play(t)
	p.registered()
	var orders []line
	for _, l := range p.part("1-without-sync-topic") {
		p.replay([]line{l}, every, acmruntime.Topic, acmruntime.SyncTopic)
		if id := l.text("automationCompositionId"); id != "" && l.Topic == acmruntime.Topic && !slices.Contains(participants, l.text("messageType")) {
			orders = append(orders, l)
			want := []string{"Deployed", "Undeployed"}[len(orders)-1]
			got := p.await(want, func(said line) bool { return said.text("responseTo") == l.text("messageId") })
			if got.text("message") != want || got.text("stateChangeResult") != "NO_ERROR" {
				t.Errorf("the order is answered with %v", got.Message)
			}
		}
	}
	if len(orders) != 2 || len(p.held()) != 0 || p.service("sklearn-iris") != nil {
		t.Errorf("of %d orders are held %v, the service is %v", len(orders), p.held(), p.service("sklearn-iris"))
	}
}

// TestReplayOfTheSecondPart: the second topic is read late. The deployment that waited for it is not carried out, since the runtime
// waits for the removal; no question is asked for ever.
func TestReplayOfTheSecondPart(t *testing.T) {
	p := play(t)
	p.registered()
	p.replay(p.part("1-without-sync-topic"), every, acmruntime.Topic)
	p.c.Eventually(t, patience, func() error {
		if held := p.held(); len(held) != 1 || held[0].Spec.AutomationCompositionID != "f5ae278e-7d2e-43f6-98f2-e0abefeb2f42" {
			return fmt.Errorf("held are %v", held)
		}
		return nil
	})
	// What the recorded participant answered for the instance was wrong, and made the other deployment fail.
	const wrong, failed = "42674d7f-e3b6-4647-80d9-ebfaeaa9bef4", "f4543f7c"
	p.replay(p.part("2-sync-topic-late"), func(l line) bool {
		return l.text("responseTo") != wrong && !strings.HasPrefix(l.text("responseTo"), failed)
	}, acmruntime.Topic, acmruntime.SyncTopic)
	undeployed := p.await("UNDEPLOYED", func(l line) bool { return l.text("responseTo") == "5af703a8-786a-4202-85eb-09a4c449d42b" })
	if undeployed.text("message") != "Undeployed" || undeployed.text("stateChangeResult") != "NO_ERROR" {
		t.Errorf("the removal is answered with %v", undeployed.Message)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	questions := 0
	for _, l := range p.said {
		if l.text("responseTo") == wrong {
			t.Errorf("the deployment is answered with %v", l.Message)
		}
		if l.text("messageType") == "PARTICIPANT_REQ_SYNC_MSG" {
			questions++
		}
	}
	if questions > 6 || len(p.held()) != 0 || p.service("sklearn-iris") != nil {
		t.Errorf("%d questions were asked, held are %v, the service is %v", questions, p.held(), p.service("sklearn-iris"))
	}
}

// TestReplayOfTheThirdPart: every order of a whole life is answered as the recorded participant did.
func TestReplayOfTheThirdPart(t *testing.T) {
	p := play(t)
	p.registered()
	// What the recorded participant knew of other automation compositions, which are deleted here.
	of := func(l line) bool {
		return slices.ContainsFunc([]string{"cd54ef2d", "cdacb591", "40de877d"}, func(prefix string) bool {
			return strings.HasPrefix(l.text("automationCompositionId"), prefix) ||
				l.text("automationCompositionId") == "" && strings.HasPrefix(l.text("compositionId"), prefix)
		})
	}
	var own []line
	for _, l := range p.part("3-whole-lifecycle") {
		if of(l) {
			own = append(own, l)
		}
	}
	p.replay(own, every, acmruntime.Topic, acmruntime.SyncTopic)
	p.c.Eventually(t, patience, func() error {
		elements, definitions := keeper.CompositionElementList{}, keeper.CompositionDefinitionList{}
		p.must(p.c.Client.List(context.Background(), &elements))
		p.must(p.c.Client.List(context.Background(), &definitions))
		if len(elements.Items)+len(definitions.Items)+len(p.held()) != 0 || p.service("sklearn-iris") != nil {
			return fmt.Errorf("left are %v, %v, %v", elements.Items, definitions.Items, p.held())
		}
		return nil
	})
}
