package modelconfig

import "errors"

// maxMessages and maxValues bound what a model config becomes once it is decoded: a message of eight bytes takes five hundred, and an empty text
// of a list a hundred. A config of maxSize that lists ordinary models, with their versions and labels, has fewer.
const maxMessages, maxValues = 1 << 15, 1 << 17

var errTooMany = errors.New("has more than 32768 messages, or more than 131072 values")

// checkSize refuses a text that becomes too much, before it is decoded.
func checkSize(text string) error {
	if messages, values := sizeOf(text); messages > maxMessages || values > maxValues {
		return errTooMany
	}
	return nil
}

// sizeOf counts the messages of a text proto, and its values: a scalar has a colon or is an item of a list, and a text may have any number of
// parts. What is in texts and comments is none (Protocol Buffers, Text Format Language Specification).
func sizeOf(text string) (messages, values int) {
	for i, lists := 0, 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case '"', '\'':
			values++
			i = endOfText(text, i)
		case '{', '<':
			messages++
		case '[':
			lists++
			values++
		case ']':
			lists = max(0, lists-1)
		case ',':
			values += min(lists, 1)
		case ':':
			values++
		}
	}
	return messages, values
}

// endOfText is where the text ends that begins at from, or is cut off: it goes over no end of a line.
func endOfText(text string, from int) int {
	for i := from + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[from], '\n':
			return i
		}
	}
	return len(text)
}
