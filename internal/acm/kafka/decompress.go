package kafka

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/internal/acm"
)

const (
	// maxBatch bounds what a compressed batch becomes, in bytes. A record of acm.MaxSync fits in.
	maxBatch = acm.MaxSync + 2<<20
	// maxBatchRecords bounds the records of a compressed batch, each of which is a kgo.Record of 176 bytes with the pointer to it. A batch of
	// maxBatch has fewer, unless they are shorter than 320 bytes on average, which no order is.
	maxBatchRecords = 1 << 15
	// budget and budgetRecords bound what all compressed batches become between two polls: the client decompresses all batches of a fetch at
	// once, and keeps one fetch for each broker. They are 31 MiB. The half that one batch cannot use is for what comes beside it.
	budget, budgetRecords = 2 * maxBatch, 2 * maxBatchRecords
	// headersOfRecord is how many kgo.RecordHeader, of 40 bytes each, are as large as a record.
	headersOfRecord = 4
)

// errSpent says that a batch has to wait for the next poll. It is no failure: the position of the client stays at the batch where no batch
// precedes it in the fetch, and otherwise after those that do, which the client hands over without the error (ProcessFetchPartition in
// franz-go's pkg/kgo/source.go). The fetch of an error too is kept until it is polled, so that no fetch follows another without a poll.
// No error of Kafka that may be retried is wrapped, since the client would keep that for itself, and nothing might ever be polled.
var errSpent = errors.New("the batch is decompressed after the next poll")

// errExceeds says that something becomes more than it may.
var errExceeds = errors.New("becomes too large")

// decompressor decompresses batches within a budget, which each poll renews. A batch that is too large by itself is a kgo.ErrMaxDecompress,
// which the consumer goes over.
//
// It sees no batch that is not compressed, of which maxFetch bounds the bytes, and the broker those of one batch: 1 MiB is 120,000 records of
// 9 bytes, which take 20 MiB of memory, and no more if it is headers. It does not see either how many records the head of a batch claims, for
// which the client makes room. Kafka stores no batch that has another number of records (validateBatch in LogValidator.java, and
// RecordIterator in DefaultRecordBatch.java).
type decompressor struct {
	// mu has the batches of several brokers follow one another, and guards the rest.
	mu sync.Mutex
	// bytes and records are what is left of the budget.
	bytes, records int
}

func newDecompressor() *decompressor {
	return &decompressor{bytes: budget, records: budgetRecords}
}

// OnPollStart implements kgo.HookPollStart. What was decompressed before is about to be handed over, or is a fetch that is followed by no
// other of its broker until it is.
func (d *decompressor) OnPollStart(context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytes, d.records = budget, budgetRecords
}

// Decompress implements kgo.Decompressor.
func (d *decompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return src, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	most := min(maxBatch, d.bytes)
	if most == 0 {
		return nil, errSpent
	}
	out, err := decompress(src, codec, most)
	if errors.Is(err, errExceeds) {
		d.bytes -= most // That much was decompressed to find it out.
		return nil, tooMuch(most < maxBatch)
	}
	if err != nil {
		return nil, err
	}
	d.bytes -= len(out)
	records := count(out)
	if records > min(maxBatchRecords, d.records) {
		return nil, tooMuch(records <= maxBatchRecords)
	}
	d.records -= records
	return out, nil
}

// tooMuch is why a batch is not handed over: it may be with another budget, or never.
func tooMuch(later bool) error {
	if later {
		return errSpent
	}
	return kgo.ErrMaxDecompress
}

// decompress undoes a codec, and fails with errExceeds at more bytes than are allowed.
func decompress(src []byte, codec kgo.CompressionCodecType, most int) ([]byte, error) {
	switch codec {
	case kgo.CodecGzip:
		in, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return readMost(in, most)
	case kgo.CodecLz4:
		return readMost(lz4.NewReader(bytes.NewReader(src)), most)
	case kgo.CodecSnappy:
		return unsnap(src, most)
	case kgo.CodecZstd:
		return unzstd(src, most)
	}
	return nil, fmt.Errorf("codec %d is unknown", codec)
}

func readMost(in io.Reader, most int) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	if err == nil && len(out) > most {
		err = errExceeds
	}
	return out, err
}

// unzstd takes a window that is larger than what is allowed for something that is: the decoder takes none. The windows of the levels up to
// 19 are 8 MiB at most (ZSTD_defaultCParameters in zstd's lib/compress/clevels.h).
func unzstd(src []byte, most int) ([]byte, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(most)))
	if err != nil {
		return nil, fmt.Errorf("make a zstd decoder: %w", err)
	}
	defer decoder.Close()
	out, err := decoder.DecodeAll(src, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, errExceeds
	}
	return out, err
}

// xerial begins what Java's producers make of snappy: eight bytes of a version follow, and blocks with their length before them
// (SnappyCodec.java in xerial's snappy-java). Other producers send one block.
var xerial = []byte("\x82SNAPPY\x00")

func unsnap(src []byte, most int) ([]byte, error) {
	if len(src) <= 16 || !bytes.HasPrefix(src, xerial) {
		return unsnapBlock(nil, src, most)
	}
	var out []byte
	for rest := src[16:]; len(rest) > 0; {
		if len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return nil, errors.New("snappy: a block is cut off")
		}
		end := 4 + int(binary.BigEndian.Uint32(rest))
		var err error
		if out, err = unsnapBlock(out, rest[4:end], most); err != nil {
			return nil, err
		}
		rest = rest[end:]
	}
	return out, nil
}

// unsnapBlock appends a block. Its length is known before.
func unsnapBlock(out, block []byte, most int) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	if size > most-len(out) {
		return nil, errExceeds
	}
	at := len(out)
	out = slices.Grow(out, size)[:at+size]
	if _, err := s2.Decode(out[at:], block); err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	return out, nil
}

// count is how many records a batch has, up to where it is malformed, and as many more as its headers are large. The fields are those of
// readRawRecordsDirect in franz-go's pkg/kgo/source.go. Batches of Kafka before 0.11, which Kafka 3.0 and later do not store, have others, and
// are bounded by their bytes alone.
func count(batch []byte) int {
	records, headers := 0, 0
	for {
		length, used := kbin.Varint(batch)
		if used <= 0 || length < 0 || int(length) > len(batch)-used {
			return records + headers/headersOfRecord
		}
		record := kbin.Reader{Src: batch[used : used+int(length)]}
		record.Int8()        // Attributes.
		record.Varlong()     // The time.
		record.Varint()      // The offset.
		record.VarintBytes() // The key.
		record.VarintBytes() // The value.
		headers += int(max(0, record.VarintArrayLen()))
		records++
		batch = batch[used+int(length):]
	}
}

var (
	_ kgo.Decompressor  = &decompressor{}
	_ kgo.HookPollStart = &decompressor{}
)
