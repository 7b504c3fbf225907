// sarama: commands come in lines of standard input, each is answered by a line of JSON.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/sarama"
	"github.com/xdg-go/scram"
)

type options map[string]string
type answer map[string]interface{}

var lines = bufio.NewScanner(os.Stdin)
var saying sync.Mutex
var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}
var commands = map[string]func(options) (answer, error){
	"produce":    produce,
	"consume":    consume,
	"find":       find,
	"administer": administer,
	"alter":      alter,
	"groups":     groups,
	"join":       join,
}

func main() {
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		asked := options{}
		for _, word := range words[1:] {
			option := strings.SplitN(word, "=", 2)
			asked[option[0]] = option[1]
		}
		told, err := commands[words[0]](asked)
		if err != nil {
			told = answer{"error": err.Error()}
		}
		say(told)
	}
}

func say(told answer) {
	line, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(string(line))
}

func (asked options) number(name string) int {
	number, err := strconv.Atoi(asked[name])
	if err != nil {
		panic(err)
	}
	return number
}

func (asked options) brokers() []string { return []string{asked["endpoint"]} }

// The newest version that it knows, TLS and login.
func settings(asked options) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.Retry.Max = 1
	if asked["ca"] != "" {
		authority, err := os.ReadFile(asked["ca"])
		if err != nil {
			return nil, err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(authority)
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = &tls.Config{RootCAs: trusted}
	}
	if asked["certificate"] != "" {
		own, err := tls.LoadX509KeyPair(asked["certificate"], asked["certificate"])
		if err != nil {
			return nil, err
		}
		config.Net.TLS.Config.Certificates = []tls.Certificate{own}
	}
	if asked["mechanism"] != "" {
		login := &config.Net.SASL
		login.Enable = true
		login.Mechanism = sarama.SASLMechanism(asked["mechanism"])
		login.User, login.Password = asked["username"], asked["password"]
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			return &challenged{hash: map[string]scram.HashGeneratorFcn{
				sarama.SASLTypeSCRAMSHA256: scram.SHA256,
				sarama.SASLTypeSCRAMSHA512: scram.SHA512,
			}[asked["mechanism"]]}
		}
	}
	return config, nil
}

// One login by SCRAM, of which sarama has only the interface.
type challenged struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (one *challenged) Begin(user, password, authorized string) error {
	client, err := one.hash.NewClient(user, password, authorized)
	if err == nil {
		one.ClientConversation = client.NewConversation()
	}
	return err
}

func produce(asked options) (answer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	config.Producer.Compression = codecs[asked["codec"]]
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	if asked["idempotent"] == "true" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(asked.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, asked.number("records"))
	for number := range messages {
		value := sarama.StringEncoder(fmt.Sprintf("%s %d", asked["name"], number))
		messages[number] = &sarama.ProducerMessage{Topic: asked["topic"], Value: value}
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err.(sarama.ProducerErrors)[0].Err
	}
	return answer{}, nil
}

func consume(asked options) (answer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumer(asked.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(asked["topic"], 0, int64(asked.number("offset")))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	records := [][]interface{}{}
	for len(records) < asked.number("records") {
		one := <-reader.Messages()
		records = append(records, []interface{}{one.Offset, string(one.Value)})
	}
	return answer{"records": records}, nil
}

func find(asked options) (answer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	client, err := sarama.NewClient(asked.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	told := answer{}
	for name, time := range map[string]int64{
		"found": int64(asked.number("time_ms")), "start": sarama.OffsetOldest, "end": sarama.OffsetNewest,
	} {
		if told[name], err = client.GetOffset(asked["topic"], 0, time); err != nil {
			return nil, err
		}
	}
	return told, nil
}

func administer(asked options) (answer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdmin(asked.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	made := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}
	if err := admin.CreateTopic(asked["topic"], made, false); err != nil {
		return nil, err
	}
	again := ""
	if err := admin.CreateTopic(asked["topic"], made, false); err != nil {
		again = err.Error()
	}
	found, err := admin.ListTopics()
	if err != nil {
		return nil, err
	}
	listed := []string{}
	for name := range found {
		listed = append(listed, name)
	}
	described, err := admin.DescribeTopics([]string{asked["topic"]})
	if err != nil {
		return nil, err
	}
	return answer{"listed": listed, "partitions": len(described[0].Partitions), "again": again}, nil
}

// Makes a topic again after each deletion, sets a config, and one to what it cannot be.
func alter(asked options) (answer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdmin(asked.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	topic, made := asked["topic"], &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}
	for times := 0; times < 2; times++ {
		if err := admin.CreateTopic(topic, made, false); err != nil {
			return nil, err
		}
		if err := admin.DeleteTopic(topic); err != nil {
			return nil, err
		}
	}
	if err := admin.CreateTopic(topic, made, false); err != nil {
		return nil, err
	}
	retain := func(value string) error {
		entries := map[string]*string{"retention.ms": &value}
		return admin.AlterConfig(sarama.TopicResource, topic, entries, false)
	}
	if err := retain("60000"); err != nil {
		return nil, err
	}
	named := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
	told, err := admin.DescribeConfig(named)
	if err != nil {
		return nil, err
	}
	refused := ""
	if err := retain("soon"); err != nil {
		refused = err.Error()
	}
	return answer{"value": told[0].Value, "refused": refused}, nil
}

func groups(asked options) (answer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdmin(asked.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	named, err := admin.ListConsumerGroups()
	if err != nil {
		return nil, err
	}
	listed := []string{}
	for name := range named {
		listed = append(listed, name)
	}
	described, err := admin.DescribeConsumerGroups([]string{asked["group"]})
	if err != nil {
		return nil, err
	}
	partitions := map[string][]int32{asked["topic"]: {0, 1, 2, 3}}
	held, err := admin.ListConsumerGroupOffsets(asked["group"], partitions)
	if err != nil {
		return nil, err
	}
	offsets := [][]int64{}
	for number, block := range held.Blocks[asked["topic"]] {
		offsets = append(offsets, []int64{int64(number), block.Offset})
	}
	members := len(described[0].Members)
	return answer{"listed": listed, "state": described[0].State, "members": members, "offsets": offsets}, nil
}

// Reads as a member of a group, and commits what it has read before it says so.
func join(asked options) (answer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	session := time.Duration(asked.number("session_ms")) * time.Millisecond
	config.Consumer.Group.Session.Timeout = session
	config.Consumer.Group.Heartbeat.Interval = session / 5
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	// It commits what has been marked at such times, and when it gives a partition away.
	config.Consumer.Offsets.CommitInterval = 50 * time.Millisecond
	group, err := sarama.NewConsumerGroup(asked.brokers(), asked["group"], config)
	if err != nil {
		return nil, err
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		for lines.Scan() {
		}
		leave()
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{asked["topic"]}, reader(asked["topic"])); err != nil {
			return nil, err
		}
	}
	return answer{}, group.Close()
}

// The topic that a member reads.
type reader string

func (topic reader) Setup(session sarama.ConsumerGroupSession) error {
	say(answer{"assigned": append([]int32{}, session.Claims()[string(topic)]...)})
	return nil
}

func (topic reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (topic reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for one := range claim.Messages() {
		session.MarkMessage(one, "")
		say(answer{"got": [][]int64{{int64(one.Partition), one.Offset}}})
	}
	return nil
}
