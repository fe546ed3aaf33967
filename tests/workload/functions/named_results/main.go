// Functions with named results, which Go's debug info may list twice, and with names that are those
// of parts of functions in C. The program prints each call as sslsniff shows it.
package main

import (
	"errors"
	"fmt"
)

func shown(err error) string {
	switch err.(type) {
	case nil:
		return "null"
	default:
		return fmt.Sprintf("*%s(%q)", fmt.Sprintf("%T", err)[1:], err.Error())
	}
}

//go:noinline
func two(i int) (n int, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("recovered %v", x)
		}
	}()
	n = i * 10
	if i == 1 {
		return n, errors.New("plain")
	}
	if i == 2 {
		panic("boom")
	}
	return n, nil
}

//go:noinline
func three(i int) (a int, s string, err error) {
	defer func() {
		s += "!"
		if err != nil {
			a = -1
		}
	}()
	if i == 1 {
		return 7, "one", errors.New("bad")
	}
	return 5, "ok", nil
}

//go:noinline
func one(i int) (n int) {
	defer func() { n++ }()
	return i
}

//go:noinline
func blank(i int) (_ int, s string, _ bool) {
	defer func() { s += "?" }()
	return i + 1, "b", i == 1
}

var kept *int

//go:noinline
func escaping(i int) (n int, s string) {
	defer func() { n += 100 }()
	kept = &n
	return i, "e"
}

//go:noinline
func cold(i int) (n int, err error) {
	defer func() { n *= 2 }()
	return i, nil
}

//go:noinline
func part(i int) func() int {
	return func() int { return i }
}

func main() {
	for i := 0; i < 3; i++ {
		n, err := two(i)
		fmt.Printf("two(i=%d) = n=%d, err=%s\n", i, n, shown(err))
		a, s, err := three(i)
		fmt.Printf("three(i=%d) = a=%d, s=%q, err=%s\n", i, a, s, shown(err))
		fmt.Printf("one(i=%d) = %d\n", i, one(i))
		x, s, is := blank(i)
		fmt.Printf("blank(i=%d) = r0=%d, s=%q, r2=%t\n", i, x, s, is)
		n, s = escaping(i)
		fmt.Printf("escaping(i=%d) = n=%d, s=%q\n", i, n, s)
		n, err = cold(i)
		fmt.Printf("cold(i=%d) = n=%d, err=%s\n", i, n, shown(err))
		part(i)()
	}
}
