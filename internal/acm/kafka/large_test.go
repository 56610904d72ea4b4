package kafka_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/kafka"
)

// squeezed compresses what it likes: a client of Kafka bounds a batch before it compresses it.
type squeezed struct{ raw []byte }

func (s squeezed) Compress(into *bytes.Buffer, _ []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	to := gzip.NewWriter(into)
	_, _ = to.Write(s.raw)
	_ = to.Close()
	return into.Bytes(), kgo.CodecGzip
}

// sendTo publishes on a partition, and returns the offset.
func sendTo(t *testing.T, c *kfake.Cluster, partition int32, value string, options ...kgo.Opt) int64 {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got, err := client.ProduceSync(within(t), &kgo.Record{Topic: operations, Partition: partition, Value: []byte(value)}).First()
	if err != nil {
		t.Fatal(err)
	}
	return got.Offset
}

// committed is the position of the group on a partition.
func committed(t *testing.T, c *kfake.Cluster, config kafka.Config, partition int32) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offsets, err := kadm.NewClient(client).FetchOffsets(within(t), config.Group)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := offsets.Lookup(operations, partition)
	return at.At
}

// TestALargeBatchIsLeftOut: 64 KiB become 64 MiB, and a client that stops there stops again when it is started anew.
func TestALargeBatchIsLeftOut(t *testing.T) {
	const partition = 3
	c := broker(t)
	first := open(t, config(c))
	joined(t, c, first)
	// A client sends what compression makes smaller alone.
	large, size := kgo.WithCompressor(squeezed{make([]byte, 64<<20)}), strings.Repeat("x", 512<<10)
	for n := range 3 {
		bomb := sendTo(t, c, partition, size, large)
		sendTo(t, c, partition, fmt.Sprint("order ", n))
		if got := receive(t, first, 1, true); got[0] != fmt.Sprint("order ", n) {
			t.Fatalf("received %q", got)
		}
		if err := first.Healthy(); err != nil {
			t.Error(err)
		}
		if at := committed(t, c, config(c), partition); at <= bomb {
			t.Errorf("the batch has offset %d, and %d is committed", bomb, at)
		}
	}
	bomb := sendTo(t, c, partition, size, large)
	for n := 0; committed(t, c, config(c), partition) <= bomb; n++ {
		if n > 100 {
			t.Fatal("that the batch is left out is not committed")
		}
		time.Sleep(100 * time.Millisecond)
	}
	first.Close()
	sendTo(t, c, partition, size, large)
	sendTo(t, c, partition, "the last order")
	second := open(t, config(c))
	if got := receive(t, second, 1, true); got[0] != "the last order" {
		t.Errorf("received %q", got)
	}
	if err := second.Healthy(); err != nil {
		t.Error(err)
	}
}

// TestTheLargestRecordIsReceived, compressed or not, and as often as it is sent.
func TestTheLargestRecordIsReceived(t *testing.T) {
	c := broker(t)
	transport := open(t, config(c))
	joined(t, c, transport)
	const small, times = 900_000, 5
	value := string(bytes.Repeat([]byte("x"), acm.MaxSync))
	for range times {
		sendTo(t, c, 0, value, kgo.ProducerBatchMaxBytes(16<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()))
	}
	sendTo(t, c, 1, value[:small])
	for _, got := range receive(t, transport, times+1, true) {
		if len(got) != acm.MaxSync && len(got) != small {
			t.Errorf("received %d bytes", len(got))
		}
	}
}

// TestABatchOfManyRecordsIsLeftOut: 100,000 records without anything in them become 17 MiB of the client's memory in a batch of 1 MiB, and
// ten times as much in the largest.
func TestABatchOfManyRecordsIsLeftOut(t *testing.T) {
	const partition, number = 3, 100_000
	c := broker(t)
	transport := open(t, config(c))
	joined(t, c, transport)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(number), kgo.ProducerBatchMaxBytes(16<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx := within(t)
	for range number {
		client.Produce(ctx, &kgo.Record{Topic: operations, Partition: partition}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	last := sendTo(t, c, partition, "an order")
	if got := receive(t, transport, 1, true); got[0] != "an order" || last < number {
		t.Errorf("received is %q, of offset %d", got, last)
	}
	if err := transport.Healthy(); err != nil {
		t.Error(err)
	}
}
