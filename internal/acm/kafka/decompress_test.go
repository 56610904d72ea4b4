package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/internal/acm"
)

var codecs = map[kgo.CompressionCodecType]kgo.CompressionCodec{
	kgo.CodecGzip: kgo.GzipCompression(), kgo.CodecSnappy: kgo.SnappyCompression(),
	kgo.CodecLz4: kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression(),
}

// compressed is what the client of a producer makes of a batch.
func compressed(t testing.TB, codec kgo.CompressionCodecType, batch []byte) []byte {
	t.Helper()
	compressor, err := kgo.DefaultCompressor(codecs[codec])
	if err != nil {
		t.Fatal(err)
	}
	out, got := compressor.Compress(&bytes.Buffer{}, batch)
	if got != codec {
		t.Fatalf("the codec is %d, not %d", got, codec)
	}
	return bytes.Clone(out)
}

// framed is snappy as Java's producers send it, in blocks.
func framed(batch []byte, block int) []byte {
	out := append([]byte("\x82SNAPPY\x00"), 0, 0, 0, 1, 0, 0, 0, 1)
	for part := range slices.Chunk(batch, block) {
		encoded := s2.EncodeSnappy(nil, part)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(encoded))), encoded...)
	}
	return out
}

// tiny are records without a key and a value, and with headers that have neither.
func tiny(records, headers int) []byte {
	body := append([]byte{0, 0, 0, 0, 0}, binary.AppendVarint(nil, int64(headers))...)
	body = append(body, make([]byte, 2*headers)...)
	return bytes.Repeat(append(binary.AppendVarint(nil, int64(len(body))), body...), records)
}

// single is a batch of one record, of so many bytes.
func single(size int) []byte {
	const prefix = 4 // What a length from 1 MiB to 128 MiB takes as a varint.
	return append(binary.AppendVarint(nil, int64(size-prefix)), make([]byte, size-prefix)...)
}

// TestEveryCodecIsUndone: what franz-go compresses, and Java's framing of snappy, is what it was.
func TestEveryCodecIsUndone(t *testing.T) {
	for _, batch := range [][]byte{tiny(3, 1), bytes.Repeat([]byte("an order, "), 100_000), single(maxBatch)} {
		for codec := range codecs {
			if got, err := newDecompressor().Decompress(compressed(t, codec, batch), codec); err != nil || !bytes.Equal(got, batch) {
				t.Errorf("codec %d makes %d bytes of %d: %v", codec, len(got), len(batch), err)
			}
		}
		if got, err := newDecompressor().Decompress(framed(batch, 32<<10), kgo.CodecSnappy); err != nil || !bytes.Equal(got, batch) {
			t.Errorf("snappy in blocks makes %d bytes of %d: %v", len(got), len(batch), err)
		}
		if got, err := newDecompressor().Decompress(batch, kgo.CodecNone); err != nil || !bytes.Equal(got, batch) {
			t.Errorf("no codec makes %d bytes of %d: %v", len(got), len(batch), err)
		}
	}
	if _, err := newDecompressor().Decompress([]byte("x"), 5); err == nil || errors.Is(err, kgo.ErrMaxDecompress) || errors.Is(err, errSpent) {
		t.Errorf("an unknown codec gives %v", err)
	}
}

// TestABatchHasBounds: one byte or record more than a batch may have is never handed over, however much of the budget is left.
func TestABatchHasBounds(t *testing.T) {
	more := single(maxBatch + 1)
	refused := func(what string, src []byte, codec kgo.CompressionCodecType) {
		t.Helper()
		if got, err := newDecompressor().Decompress(src, codec); !errors.Is(err, kgo.ErrMaxDecompress) || got != nil {
			t.Errorf("%s gives %d bytes and %v", what, len(got), err)
		}
	}
	for codec := range codecs {
		refused(fmt.Sprint("codec ", codec), compressed(t, codec, more), codec)
	}
	refused("snappy in blocks", framed(more, 32<<10), kgo.CodecSnappy)
	var wide bytes.Buffer
	encoder, err := zstd.NewWriter(&wide, zstd.WithWindowSize(32<<20))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = encoder.Write(tiny(1, 0))
	_ = encoder.Flush() // Without it the encoder knows the size, and takes a window of it.
	_ = encoder.Close()
	refused("zstd with a window of 32 MiB", wide.Bytes(), kgo.CodecZstd)
	refused("records", compressed(t, kgo.CodecZstd, tiny(maxBatchRecords+1, 0)), kgo.CodecZstd)
	refused("headers", compressed(t, kgo.CodecZstd, tiny(1, headersOfRecord*maxBatchRecords)), kgo.CodecZstd)
	for _, batch := range [][]byte{tiny(maxBatchRecords, 0), tiny(1, headersOfRecord*(maxBatchRecords-1))} {
		if got, err := newDecompressor().Decompress(compressed(t, kgo.CodecZstd, batch), kgo.CodecZstd); err != nil || len(got) != len(batch) {
			t.Errorf("%d bytes of records give %d and %v", len(batch), len(got), err)
		}
	}
	if record, header := unsafe.Sizeof(kgo.Record{})+8, unsafe.Sizeof(kgo.RecordHeader{}); record > 176 || headersOfRecord*header > record {
		t.Errorf("a record takes %d bytes, and a header %d", record, header)
	}
}

// TestTheBudgetOfAPoll: what exceeds it waits for the next poll, and is handed over then.
func TestTheBudgetOfAPoll(t *testing.T) {
	const fit = 2
	for name, batch := range map[string][]byte{"bytes": single(maxBatch * 3 / 4), "records": tiny(maxBatchRecords*3/4, 0)} {
		d, src := newDecompressor(), compressed(t, kgo.CodecZstd, batch)
		for poll := range 3 {
			d.OnPollStart(t.Context())
			for n := range fit {
				if _, err := d.Decompress(src, kgo.CodecZstd); err != nil {
					t.Errorf("%s: batch %d of poll %d gives %v", name, n, poll, err)
				}
			}
			for range 2 {
				if got, err := d.Decompress(src, kgo.CodecZstd); !errors.Is(err, errSpent) || errors.Is(err, kgo.ErrMaxDecompress) || got != nil {
					t.Errorf("%s: after what fits, poll %d gives %d bytes and %v", name, poll, len(got), err)
				}
			}
		}
	}
}

// counted counts what is decompressed between two polls.
type counted struct {
	inner *decompressor
	mu    sync.Mutex
	// now is of this poll, and most of the poll that had most; spent is how often a batch had to wait.
	now, most, spent, polls int
}

func (c *counted) OnPollStart(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = 0
	c.polls++
	c.inner.OnPollStart(ctx)
}

func (c *counted) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := c.inner.Decompress(src, codec)
	c.now += len(out)
	c.most = max(c.most, c.now)
	if errors.Is(err, errSpent) {
		c.spent++
	}
	return out, err
}

const (
	topicOfBombs                 = "t"
	partitions, number, sizeEach = 2, 20, 8 << 20
)

// bombs gives a broker a topic with as many batches on each partition, an order behind them, and a group that is to read it from the start.
func bombs(ctx context.Context, t *testing.T) Config {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topicOfBombs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(16<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	send := func(partition int32, value []byte) {
		if err := producer.ProduceSync(ctx, &kgo.Record{Topic: topicOfBombs, Partition: partition, Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	config, offsets := Config{Servers: cluster.ListenAddrs(), OperationTopic: topicOfBombs, Group: "g", ReplicaID: "r"}, kadm.Offsets{}
	for partition := range int32(partitions) {
		offsets.AddOffset(topicOfBombs, partition, 0, -1)
		for range number {
			send(partition, make([]byte, sizeEach))
		}
		send(partition, []byte("an order"))
	}
	if _, err := kadm.NewClient(producer).CommitOffsets(ctx, config.Group, offsets); err != nil {
		t.Fatal(err)
	}
	return config
}

// consume reads a topic as a transport does, and counts.
func consume(ctx context.Context, t *testing.T, config Config, count *counted) (*consumer, <-chan acm.Batch) {
	t.Helper()
	common, err := config.options()
	if err != nil {
		t.Fatal(err)
	}
	own := config.consumer(config.Group, config.OperationTopic)
	c, err := newConsumer(config.OperationTopic, config.Group, false,
		slices.Concat(own, common, []kgo.Opt{kgo.WithDecompressor(count), kgo.WithHooks(count)}), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	to, ended := make(chan acm.Batch), make(chan struct{})
	go func() {
		defer close(ended)
		c.run(ctx, to)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		c.client.CloseAllowingRebalance()
	})
	return c, to
}

// TestBatchesThatBecomeLargeTogether: a fetch has twenty batches of 8 MiB on each of two partitions. All records are received, in the order
// of their partition, and no more than the budget is decompressed between two polls.
func TestBatchesThatBecomeLargeTogether(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	count := &counted{inner: newDecompressor()}
	c, to := consume(ctx, t, bombs(ctx, t), count)
	zeros, orders := 0, 0
	for zeros+orders < partitions*(number+1) {
		select {
		case <-ctx.Done():
			t.Fatalf("received are %d records and %d orders", zeros, orders)
		case batch := <-to:
			for _, record := range batch.Records {
				if len(record) == sizeEach {
					zeros++
				} else if orders++; string(record) != "an order" || zeros < orders*number {
					t.Errorf("after %d records came %q", zeros, record)
				}
			}
			if trouble := c.trouble.Load(); trouble != nil {
				t.Error(*trouble)
			}
			if err := batch.Done(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	count.mu.Lock()
	defer count.mu.Unlock()
	if zeros != partitions*number || count.most > budget || count.most < sizeEach || count.spent == 0 {
		t.Errorf("%d records came, %d bytes were decompressed between two polls, and %d batches waited", zeros, count.most, count.spent)
	}
	if count.polls > 3*zeros {
		t.Errorf("it took %d polls", count.polls)
	}
}

// FuzzDecompress: what is not too large is what franz-go makes of it.
func FuzzDecompress(f *testing.F) {
	for codec := range codecs {
		f.Add(compressed(f, codec, tiny(3, 2)), int8(codec))
	}
	f.Add(framed(tiny(3, 2), 5), int8(kgo.CodecSnappy))
	f.Fuzz(func(t *testing.T, src []byte, kind int8) {
		codec := kgo.CompressionCodecType(kind)
		got, err := newDecompressor().Decompress(src, codec)
		if len(got) > maxBatch && codec != kgo.CodecNone {
			t.Errorf("%d bytes become %d", len(src), len(got))
		}
		if errors.Is(err, kgo.ErrMaxDecompress) {
			return
		}
		want, wanted := kgo.DefaultDecompressor().Decompress(src, codec)
		if (err == nil) != (wanted == nil) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%d bytes and %v, not %d bytes and %v", len(got), err, len(want), wanted)
		}
	})
}
