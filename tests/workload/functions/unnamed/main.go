// Functions with arguments that have no name.
package main

import "fmt"

//go:noinline
func blank(_ int, _ string, x int) (_ int, err error) { return x + 1, nil }

//go:noinline
func unused(_ int, x int, y string) int { return len(y) }

//go:noinline
func arrays(_ [2]int, x [2]int, y int) [2]int { return [2]int{y, x[1]} }

func main() {
	fmt.Println(blank(1, "b", 3))
	fmt.Println(unused(1, 2, "abc"))
	fmt.Println(arrays([2]int{1, 2}, [2]int{3, 4}, 5))
}
