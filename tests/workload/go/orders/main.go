// A server whose handlers call functions and sleep in between: `orders CERTIFICATE KEY` prints its port.
//
// GET /orders/N calls findOrder(N), sleeps, and calls price(N) three times.
package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	http.HandleFunc("/orders/", func(answer http.ResponseWriter, request *http.Request) {
		number, _ := strconv.Atoi(strings.TrimPrefix(request.URL.Path, "/orders/"))
		found := findOrder(number)
		total := 0
		for round := 0; round < 3; round++ {
			time.Sleep(time.Duration(1+(number+round)%7) * time.Millisecond)
			total += price(found)
		}
		fmt.Fprint(answer, total)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{TLSConfig: &tls.Config{}}
	log.Fatal(server.ServeTLS(listener, os.Args[1], os.Args[2]))
}

var mask = 0

//go:noinline
func findOrder(number int) int {
	return number ^ mask
}

//go:noinline
func price(number int) int {
	return 3 * number
}
