package source

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// maxPeel bounds the tags of tags that are followed to a commit.
	maxPeel = 5
	// maxDecoded bounds a tree, a commit or a tag, in bytes. A tree with 100,000 entries has about 6 MiB.
	maxDecoded = 16 << 20
	// decodedFactor is how many times its size an object takes in memory while it is decoded: itself, a copy, and the entries of a tree.
	decodedFactor = 8
	// maxSizes is how long the two sizes are that a delta begins with, in bytes.
	maxSizes = 12
)

// pack holds the objects of a pack, inflated into one file. go-git's own parser would resolve the same deltas over and
// over, and hold a whole chain of them in memory: a small pack can cost it hours and gigabytes. Here every object is
// resolved once, when it is read, from a base that was read before it, which is the order that git writes packs in.
type pack struct {
	file   *os.File
	limits Limits
	// end is where the next object comes, and grown how much of the file has space on the disk.
	end, grown int64

	byOffset map[int64]packed
	byHash   map[plumbing.Hash]packed
	// listed counts the entries of the trees that were written.
	listed int
}

// packed is where an object lies in the file.
type packed struct {
	kind      plumbing.ObjectType
	pos, size int64
}

func newPack(name string, limits Limits) (*pack, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, diskError(err)
	}
	return &pack{file: file, limits: limits, byOffset: map[int64]packed{}, byHash: map[plumbing.Hash]packed{}}, nil
}

func (p *pack) close() { _ = p.file.Close() }

// read reads a whole pack. Every object is named by the hash of what came, so none can pass for another.
func (p *pack) read(ctx context.Context, in io.Reader) error {
	scanner := packfile.NewScanner(in)
	_, count, err := scanner.Header()
	if err != nil {
		return packError(err)
	}
	// Each file may come with its folder.
	if int64(count) > 2*int64(p.limits.Entries) {
		return tooLarge("the pack has %d objects, more than %d", count, 2*p.limits.Entries)
	}
	for range count {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return packError(err)
		}
		if err := p.fits(header.Length); err != nil {
			return err
		}
		if err := p.object(ctx, scanner, header); err != nil {
			return packError(err)
		}
	}
	if _, err := scanner.Checksum(); err != nil {
		return packError(err)
	}
	return nil
}

// fits refuses an object before it is read.
func (p *pack) fits(size int64) error {
	switch {
	case size < 0:
		return invalid("the pack has an object without a size")
	case size > p.limits.File:
		return tooLarge("the pack has an object of %d bytes, more than %d", size, p.limits.File)
	case p.end+size > p.limits.Unpacked:
		return tooLarge("the pack unpacks to more than %d bytes", p.limits.Unpacked)
	}
	return nil
}

func (p *pack) object(ctx context.Context, scanner *packfile.Scanner, header *packfile.ObjectHeader) error {
	switch header.Type {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		hash := plumbing.NewHasher(header.Type, header.Length)
		out := io.NewOffsetWriter(p.file, p.end)
		n, _, err := scanner.NextObject(io.MultiWriter(hash, out))
		if err == nil && n != header.Length {
			err = invalid("the pack has an object of another size than it says")
		}
		if err != nil {
			return err
		}
		p.add(header.Offset, header.Type, header.Length, hash.Sum())
		return p.grow(ctx, p.end)
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		return p.delta(ctx, scanner, header)
	default:
		return invalid("the pack has an object of an unknown kind")
	}
}

// delta reads a delta and finds its base.
func (p *pack) delta(ctx context.Context, scanner *packfile.Scanner, header *packfile.ObjectHeader) error {
	base, ok := p.byOffset[header.OffsetReference]
	if header.Type == plumbing.REFDeltaObject {
		base, ok = p.byHash[header.Reference]
	}
	if !ok {
		return invalid("the pack has a delta before what it changes")
	}
	// A server sends it as slowly as it likes. Until all of it is there, in the place of what it will make, it takes no memory of others.
	n, _, err := scanner.NextObject(io.NewOffsetWriter(p.file, p.end))
	if err == nil && n != header.Length {
		err = invalid("the pack has a delta of another size than it says")
	}
	if err != nil {
		return err
	}
	// Nor does it hold memory here: others that have their turn on the disk may wait for that.
	if err := p.grow(ctx, p.end+header.Length); err != nil {
		return err
	}
	if err := p.apply(ctx, header, base); err != nil {
		return err
	}
	return p.grow(ctx, p.end)
}

// apply applies a delta, which is at the end of the file, as soon as there is memory for it.
func (p *pack) apply(ctx context.Context, header *packfile.ObjectHeader, base packed) error {
	sizes, err := p.content(packed{pos: p.end, size: min(header.Length, maxSizes)})
	if err != nil {
		return diskError(err)
	}
	size, ok := targetSize(sizes)
	if !ok {
		return invalid("the pack has a damaged delta")
	}
	if err := p.fits(size); err != nil {
		return err
	}
	// All three of them are in memory at once.
	if max(header.Length, base.size, size) > freeMemory {
		release, err := spaceOf(ctx).hold(ctx, header.Length+base.size+size)
		if err != nil {
			return err
		}
		defer release()
	}
	delta, err := p.content(packed{pos: p.end, size: header.Length})
	if err != nil {
		return diskError(err)
	}
	from, err := p.content(base)
	if err != nil {
		return diskError(err)
	}
	content, err := packfile.PatchDelta(from, delta)
	if err != nil || int64(len(content)) != size {
		return invalid("the pack has a damaged delta")
	}
	if _, err := p.file.WriteAt(content, p.end); err != nil {
		return diskError(err)
	}
	p.add(header.Offset, base.kind, size, plumbing.ComputeHash(base.kind, content))
	return nil
}

// grow takes the space that the file needs on the disk up to a place.
func (p *pack) grow(ctx context.Context, to int64) error {
	more := to - p.grown
	if more <= 0 {
		return nil
	}
	p.grown = to
	return spaceOf(ctx).take(ctx, more)
}

func (p *pack) add(offset int64, kind plumbing.ObjectType, size int64, hash plumbing.Hash) {
	o := packed{kind: kind, pos: p.end, size: size}
	p.byOffset[offset], p.byHash[hash] = o, o
	p.end += size
}

func (p *pack) content(o packed) ([]byte, error) {
	out := make([]byte, o.size)
	_, err := p.file.ReadAt(out, o.pos)
	return out, err
}

// targetSize is the second number of a delta, the size of what it makes. Both are little-endian groups of seven bits.
func targetSize(delta []byte) (int64, bool) {
	var size int64
	for range 2 {
		size = 0
		for shift := 0; ; shift += 7 {
			if len(delta) == 0 || shift > 35 {
				return 0, false
			}
			b := delta[0]
			delta = delta[1:]
			size |= int64(b&0x7f) << shift
			if b&0x80 == 0 {
				break
			}
		}
	}
	return size, true
}

// decode reads an object of git that is not a file, as soon as there is memory for it.
func (p *pack) decode(ctx context.Context, hash plumbing.Hash, kind plumbing.ObjectType, into func(plumbing.EncodedObject) error) error {
	o, ok := p.byHash[hash]
	switch {
	case !ok || o.kind != kind:
		return invalid("the pack lacks the %s %s", kind, hash)
	case o.size > maxDecoded:
		return tooLarge("the pack has a %s of %d bytes, more than %d", kind, o.size, maxDecoded)
	}
	release, err := spaceOf(ctx).hold(ctx, decodedFactor*o.size)
	if err != nil {
		return err
	}
	defer release()
	content, err := p.content(o)
	if err != nil {
		return diskError(err)
	}
	raw := &plumbing.MemoryObject{}
	raw.SetType(kind)
	if _, err := raw.Write(content); err != nil {
		return err
	}
	if err := into(raw); err != nil {
		return packError(err)
	}
	return nil
}

// commit follows tags to a commit, and returns it with the tree at its top.
func (p *pack) commit(ctx context.Context, want plumbing.Hash) (commit, top plumbing.Hash, err error) {
	for range maxPeel {
		if p.byHash[want].kind != plumbing.TagObject {
			break
		}
		var tag object.Tag
		if err := p.decode(ctx, want, plumbing.TagObject, tag.Decode); err != nil {
			return commit, top, err
		}
		want = tag.Target
	}
	var c object.Commit
	if err := p.decode(ctx, want, plumbing.CommitObject, c.Decode); err != nil {
		return commit, top, err
	}
	return want, c.TreeHash, nil
}

// checkout writes a folder of a tree.
func (p *pack) checkout(ctx context.Context, top plumbing.Hash, dir string, to *tree) error {
	at := top
	for part := range strings.SplitSeq(dir, "/") {
		if part == "" {
			continue
		}
		entries, err := p.list(ctx, at)
		if err != nil {
			return err
		}
		found := false
		for _, e := range entries {
			if e.Name == part && e.Mode == filemode.Dir {
				at, found = e.Hash, true
			}
		}
		if !found {
			return terminal(ReasonNotFound, "check the folder after //", "the repository has no folder %q", dir)
		}
	}
	if err := p.write(ctx, at, "", to); err != nil {
		return err
	}
	if len(to.files) == 0 {
		return invalid("the repository holds no file there")
	}
	return nil
}

func (p *pack) list(ctx context.Context, hash plumbing.Hash) ([]object.TreeEntry, error) {
	var t object.Tree
	if err := p.decode(ctx, hash, plumbing.TreeObject, t.Decode); err != nil {
		return nil, err
	}
	return t.Entries, nil
}

// write writes a folder with all below it. A tree may hold the same tree a thousand times over in few bytes: the entries that
// are written are bounded, and so is the depth.
func (p *pack) write(ctx context.Context, hash plumbing.Hash, dir string, to *tree) error {
	entries, err := p.list(ctx, hash)
	if err != nil {
		return err
	}
	// The entries of all folders on the way down are in memory, most of which were not written yet.
	if p.listed += len(entries); p.listed > to.limits.Entries {
		return tooManyEntries(to.limits)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.Contains(e.Name, "/") || e.Name == "" || e.Name == "." || e.Name == ".." || len(e.Name) > maxName {
			return invalid("the repository has the name %.80q, which is none", e.Name)
		}
		name := path.Join(dir, e.Name)
		switch e.Mode {
		case filemode.Dir:
			if err = to.folder(name); err == nil {
				err = p.write(ctx, e.Hash, name, to)
			}
		case filemode.Regular, filemode.Executable, filemode.Deprecated:
			err = p.blob(e.Hash, name, to)
		default:
			// Links lead anywhere, and submodules are other repositories.
			err = to.skip()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pack) blob(hash plumbing.Hash, name string, to *tree) error {
	o, ok := p.byHash[hash]
	if !ok || o.kind != plumbing.BlobObject {
		return invalid("the pack lacks the file %q", name)
	}
	return to.add(name, io.NewSectionReader(p.file, o.pos, o.size))
}

// packError is the error of a pack that cannot be read, unless a limit, the network or the disk is at fault.
func packError(err error) error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return describe(err)
	case errors.As(err, new(*os.PathError)):
		return diskError(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return describe(io.ErrUnexpectedEOF)
	}
	return terminal(ReasonArchiveInvalid, "check the repository with git fsck", "the pack that the server sent is not valid")
}
