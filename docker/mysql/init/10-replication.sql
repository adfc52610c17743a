-- The account of connection mysql_shop reads the log and the tables, and changes nothing.
-- The image has created it from MYSQL_USER and MYSQL_PASSWORD, with all rights on MYSQL_DATABASE.
REVOKE ALL PRIVILEGES, GRANT OPTION FROM 'databus'@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'databus'@'%';
