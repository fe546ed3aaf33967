// Messages through crypto/tls as fast as they go, between two goroutines: messages CERTIFICATE KEY
//
// For each line "COUNT SIZE RATE" on standard input one goroutine writes COUNT messages of SIZE bytes (RATE is not heeded);
// the other reads them in calls of SIZE bytes at most. The answer is the seconds that it took, and how many calls of Read.
package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"os"
	"time"
)

func main() {
	pair, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	dialled, err := net.Dial("tcp", listener.Addr().String())
	check(err)
	accepted, err := listener.Accept()
	check(err)
	writer := tls.Client(dialled, &tls.Config{InsecureSkipVerify: true})
	reader := tls.Server(accepted, &tls.Config{Certificates: []tls.Certificate{pair}})
	go func() { check(reader.Handshake()) }()
	check(writer.Handshake())
	fmt.Println("ready")
	var count, size int
	var rate float64
	for {
		if _, err := fmt.Scan(&count, &size, &rate); err != nil {
			return
		}
		started := time.Now()
		calls := make(chan int)
		go func() { calls <- read(reader, count*size, size) }()
		data := make([]byte, size)
		for number := 0; number < count; number++ {
			_, err := writer.Write(data)
			check(err)
		}
		reads := <-calls
		fmt.Printf("%.6f %d\n", time.Since(started).Seconds(), reads)
	}
}

// read returns in how many calls it has read so many bytes.
func read(conn net.Conn, left, size int) int {
	data := make([]byte, size)
	for calls := 1; ; calls++ {
		count, err := conn.Read(data)
		check(err)
		left -= count
		if left <= 0 {
			return calls
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
